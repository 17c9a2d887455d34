"""What is asked of a table, and what is refused before Spark starts."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from rocketpipe.blocking import Admin
from rocketpipe.errors import ConfigError, ConnectionLost
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.planning.gaps import Gap, MessagesGone
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import NewColumns, NotATable
from rocketpipe.tables.following import (
    MOST_RESTARTS,
    FollowFailed,
    _Run,
    asked_spec,
    follow,
    held_up_in,
    own_group,
    persistently,
)
from rocketpipe.tables.table import FollowedTable
from rocketpipe.testing.servers import serving

JSON: dict[str, Any] = {"decode": "json", "schema": "city STRING, cents INT"}


def test_a_new_table_is_read_from_this_machine_in_the_name_of_its_directory(
    tmp_path: Path,
) -> None:
    spec = asked_spec(TableDirectory(tmp_path / "orders"), "orders", JSON)
    assert (spec.name_server, spec.group) == ("127.0.0.1:9876", "table-orders")


def test_a_table_that_is_there_is_as_it_was_unless_asked(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path / "orders")
    made = asked_spec(directory, "orders", {**JSON, "name_server": "127.0.0.1:1", "keep_ms": 0})
    directory.write(made)
    assert asked_spec(directory, None, {}) == made
    changed = asked_spec(directory, "orders", {"store": "old-store", "schema": None})
    assert changed.name_server is None
    assert changed.store == str(Path("old-store").absolute())
    assert changed.schema == made.schema
    assert asked_spec(directory, None, {"name_server": "127.0.0.1:2"}).store is None


@pytest.mark.parametrize("strange", ["id", "added", "colour"])
def test_what_no_table_has_is_refused(tmp_path: Path, strange: str) -> None:
    with pytest.raises(ConfigError, match=f"{strange!r} is not something"):
        asked_spec(TableDirectory(tmp_path), "orders", {strange: "x"})


def test_a_new_table_needs_a_topic(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name the topic to follow"):
        asked_spec(TableDirectory(tmp_path), None, JSON)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({**JSON, "schema": "city TEXTS"}, ConfigError),
        ({**JSON, "partition_by": "town"}, ConfigError),
        ({**JSON, "start": "yesterday"}, ConfigError),
        ({**JSON, "name_server": "127.0.0.1:1"}, ConnectionLost),
    ],
)
def test_what_is_wrong_shows_before_anything_is_written(
    tmp_path: Path, asked: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        follow("orders", to=tmp_path / "lake", once=True, **asked)
    assert not (tmp_path / "lake").exists()


def test_a_directory_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "photo.png").touch()
    with pytest.raises(NotATable, match="choose a directory that is empty"):
        follow("orders", to=tmp_path, once=True, **JSON)
    assert [each.name for each in tmp_path.iterdir()] == ["photo.png"]


@pytest.mark.scenario
def test_who_comes_second_takes_a_name_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path) as servers, Admin(servers.name_server) as admin:
        admin.topics.create("orders", queues=2)
        here = servers.name_server

        def chosen(place: str) -> str:
            return own_group(here, "table-orders", "orders", Path(place))

        assert chosen("/lake/a/orders") == "table-orders"
        admin.groups.create("table-orders")
        assert chosen("/lake/a/orders") == "table-orders"  # it was made for it
        queue = next(iter(admin.offsets.ends("orders")))
        admin.offsets.commit("table-orders", {queue: QueueOffset(0)})
        second = chosen("/lake/b/orders")
        assert second == chosen("/lake/b/orders") != chosen("/lake/c/orders")
        assert second.startswith("table-orders-")
    assert chosen("/lake/b/orders") == "table-orders"  # nobody can be asked


class Turns:
    """A run of a query that never was, and how long it paused between its failures."""

    def __init__(self, tmp_path: Path, *, once: bool) -> None:
        self.paused: list[float] = []
        self.told: list[Any] = []
        spec = asked_spec(TableDirectory(tmp_path), "orders", JSON)
        table = FollowedTable(TableDirectory(tmp_path), spec)
        nobody: Any = object()
        self.stop = threading.Event()
        self.run = _Run(nobody, table, once=once, stop=self.stop, tell=self.told.append)
        self.run._stop = self  # type: ignore[assignment]

    def wait(self, timeout_s: float) -> bool:
        self.paused.append(timeout_s)
        return False


AWAY = "[STREAM_FAILED] terminated\nrocketpipe.errors.ConnectionLost: 127.0.0.1:1: refused\n"


def test_a_query_goes_on_after_what_passes_with_longer_and_longer_pauses(tmp_path: Path) -> None:
    turns = Turns(tmp_path, once=False)
    for _ in range(12):
        turns.run._excuse(AWAY)
    assert turns.paused[:3] == [1.0, 2.0, 4.0]
    assert turns.paused[-1] == 30.0
    assert turns.told[0] == {"restarted": "the broker was away"}
    turns.run._written({"batch": 0, "rows": 1, "bad_rows": 0})  # it came further
    turns.run._excuse(AWAY)
    assert turns.paused[-1] == 1.0
    assert turns.run.restarts == 13


def test_a_query_that_is_to_end_gives_up(tmp_path: Path) -> None:
    turns = Turns(tmp_path, once=True)
    for _ in range(MOST_RESTARTS):
        turns.run._excuse(AWAY)
    with pytest.raises(FollowFailed, match=r"127\.0\.0\.1:1: refused$"):
        turns.run._excuse(AWAY)
    assert len(turns.paused) == MOST_RESTARTS


def test_a_query_that_does_not_start_for_what_passes_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(tmp_path, once=True)
    failures = ["Python worker failed to connect back.", "[X] there is no such thing"]

    def start() -> Any:
        raise PySparkException(failures.pop(0))

    monkeypatch.setattr(turns.run, "_start", start)
    monkeypatch.setattr(turns, "is_set", lambda: False, raising=False)
    with pytest.raises(FollowFailed, match="there is no such thing"):
        turns.run.run()
    assert turns.run.restarts == 1


def test_what_does_not_pass_ends_the_query_in_our_own_words(tmp_path: Path) -> None:
    turns = Turns(tmp_path, once=False)
    gap = MessagesGone(
        Gap(
            MessageQueue(topic="orders", broker_name="a", queue_id=0),
            QueueOffset(0),
            QueueOffset(3),
        )
    )
    gone = f"[X] failed\nrocketpipe.pipeline.planning.gaps.MessagesGone: {gap}\n at x"
    with pytest.raises(FollowFailed, match=r"0 to 2 .* without them with --on-gap skip$"):
        turns.run._excuse(gone)
    with pytest.raises(FollowFailed, match=r"heap space$"):
        turns.run._excuse("java.lang.OutOfMemoryError: Java heap space\n\tat org.apache")
    turns.run._writer.failure = NewColumns("lake", "bodies have fields that are no column")
    with pytest.raises(NewColumns):
        turns.run._excuse(AWAY)
    assert turns.paused == []


@pytest.mark.parametrize(
    "died", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "no")]
)
def test_a_jvm_that_dies_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died: Exception
) -> None:
    turns = Turns(tmp_path, once=False)

    class Query:
        """Nobody answers any more."""

        def __getattr__(self, name: str) -> Any:
            raise died

    monkeypatch.setattr(turns.run, "_start", Query)
    monkeypatch.setattr(turns, "is_set", lambda: False, raising=False)
    with pytest.raises(FollowFailed, match="JVM has died: run it again, and it goes on"):
        turns.run.run()


def test_what_cannot_be_read_for_now_is_told_once(tmp_path: Path) -> None:
    turns = Turns(tmp_path, once=False)

    class Query:
        """Of two brokers one is away, then both are, then the first is back."""

        def __init__(self) -> None:
            self.looks = [["a"], ["a"], ["a", "b"], ["b"]]

        @property
        def isActive(self) -> bool:  # noqa: N802 - Spark's name
            return bool(self.looks)

        @property
        def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
            said = json.dumps({"lag": 1, "held_up": self.looks.pop(0) if self.looks else []})
            return {"sources": [{"latestOffset": said}, {"latestOffset": None}]}

    query: Any = Query()
    turns.run._wait_for(query)
    assert turns.told == [{"held_up": "a"}, {"held_up": "b"}]
    assert held_up_in(None) == []


def test_what_may_be_done_again_is_done_until_it_fails_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paused: list[float] = []
    monkeypatch.setattr("rocketpipe.tables.following.time.sleep", paused.append)
    answers: list[Any] = [PySparkException(AWAY), PySparkException(AWAY), "done"]

    def work() -> str:
        answer = answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    assert persistently(work, ValueError) == "done"
    assert paused == [1.0, 2.0]
    answers = [PySparkException("x\nrocketpipe.errors.ConfigError: no such thing\n")]
    with pytest.raises(ValueError, match=r"^no such thing$"):
        persistently(work, ValueError)
    answers = [PySparkException("Traceback\n  File x\nTypeError: one too many\n")]
    with pytest.raises(ValueError, match=r"^TypeError: one too many$"):
        persistently(work, ValueError)
    answers = [PySparkException(AWAY) for _ in range(20)]
    with pytest.raises(ValueError, match=r"refused$"):
        persistently(work, ValueError)
    assert len(answers) == 20 - MOST_RESTARTS - 1
