"""Bad rows once more, after what made them bad was mended: into the table, or into the topic.

    replay("lake/orders", to="table", schema="city STRING, cents INT, tip INT")

    1  tasks decode the bad rows and write files    which are part of nothing yet (in PostgreSQL
                                                    tables of their own, which are logged)
    2  ``replay.json`` names them all               from now on it will be done, whoever dies
    3  rows are added to the table; or messages are sent to the topic, all at once, and what was
       sent is added to ``replayed``                each once, by the replay's name
    4  the bad rows become those that are left      once, by the same name
    5  ``replay.json`` goes

A death before 2 changes nothing. After it, the table is neither followed nor verified until the
next replay has gone through 3 to 5 again, which do nothing where they were done.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.session import SparkPlace
from rocketpipe.tables.columns import BAD_ROWS, BODY
from rocketpipe.tables.decoding import Decoding
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import NotATable, ReplayFailed
from rocketpipe.tables.files import LIST_SCHEMA, WrittenFile
from rocketpipe.tables.following import Watch, asked_spec, persistently, session_of
from rocketpipe.tables.replay_task import BAD, DONE, NUMBERS, ROWS, Choice, ReplayTask, Target
from rocketpipe.tables.stored import StoredPart
from rocketpipe.tables.table import FollowedTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGETS: Final = ("table", "topic")
_SENT: Final = "body BINARY, keys ARRAY<STRING>, tags STRING"


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What became of a table's bad rows."""

    #: Those that are rows of the table now, or were sent to the topic.
    replayed: int
    #: Those that are bad again, with their new error.
    failed: int
    #: Those that were not chosen.
    left: int
    #: Of a replay that was cut off before, and has been finished.
    resumed: int = 0


@dataclass(frozen=True, slots=True)
class Journal:
    """A replay that is decided: what is to be where, by its name."""

    name: str
    to: Target
    topic: str
    name_server: str | None
    files: dict[str, tuple[WrittenFile, ...]]
    replayed: int

    @classmethod
    def read(cls, path: Path) -> Journal | None:
        """The replay that is under way, if one is.

        Raises:
            NotATable: If what was kept cannot be read.
        """
        try:
            kept = json.loads(path.read_text())
            files = {
                kind: tuple(WrittenFile(**each) for each in some)
                for kind, some in kept.pop("files").items()
            }
            return cls(files=files, **kept)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise NotATable(str(path), f"is damaged ({error}): put it back") from error

    def write(self, path: Path) -> None:
        """Keep it, durably: with it the replay is decided."""
        draft = path.with_suffix(".draft")
        with draft.open("w") as file:
            json.dump(asdict(self), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)


def replay(
    place: str | Path,
    *,
    to: Target,
    error: str | None = None,
    name_server: str | None = None,
    spark: SparkSession | None = None,
    spark_place: SparkPlace | None = None,
    watch: Watch | None = None,
    **asked: Any,
) -> ReplayReport:
    """Replay bad rows, each once: those that can be decoded now, of those whose error fits.

    ``error`` is a regular expression that is looked for in the error; ``asked`` are fields of
    `TableSpec` that say how bodies are decoded: columns that ``schema`` has more are the table's
    from then on, another ``decode`` is for these rows alone. With ``to="topic"`` messages are sent
    to the table's topic, at ``name_server`` if the table is not read from brokers.

    Raises:
        ConfigError: If something that was asked for cannot be.
        NotATable: If the directory is something else.
        SpecMismatch: If the schema would make another table of it.
        AlreadyFollowed: If another process writes the table.
        ReplayFailed: If rows cannot be read, or sent.
    """
    if to not in TARGETS:
        raise ConfigError("--to", f"is {to!r}: choose one of {', '.join(TARGETS)}")
    directory = TableDirectory(place)
    directory.read()
    _check_pattern(error)
    if spark is None:
        (spark_place or SparkPlace()).check_reachable()
    with directory.locked():
        unfinished = Journal.read(directory.replay_path)
        decode = asked.pop("decode", None)
        table = FollowedTable(directory, asked_spec(directory, None, asked))
        decoding = _decoding(table, decode)
        sent_to = name_server or table.spec.name_server
        if to == "topic" and sent_to is None:
            raise ConfigError("--namesrv", "is missing: the table is read from a store")
        if to == "table" and table.spec.properties:
            raise ConfigError(
                "--to",
                "table is not possible where rows have the properties of messages, which bad rows "
                "do not have: say --to topic, or make it anew with `rocketpipe table rebuild`",
            )
        if unfinished is None:
            table.check()
        with session_of(spark, spark_place, "replay", lasting=False, watch=watch) as session:
            replayer = Replayer(table, _listed_by(session), partial(_send, session))
            if unfinished is not None:
                replace(replayer, table=FollowedTable.open(place)).finish(unfinished)
                table.check()
            table.prepare()
            report = replayer.replay(decoding, to, Choice(error), sent_to)
    return replace(report, resumed=0 if unfinished is None else unfinished.replayed)


def settle(
    spark: SparkSession, table: FollowedTable, places: frozenset[tuple[str, int, int]]
) -> None:
    """Have bad rows count as replayed, since in another table of the topic they were."""
    if places:
        decoding = Decoding.of(table.spec)
        replayer = Replayer(table, _listed_by(spark), partial(_send, spark))
        replayer.replay(decoding, "settled", Choice(places=places), None)


@dataclass(frozen=True, slots=True)
class Replayer:
    """Replays the bad rows of one table, for who has its lock."""

    table: FollowedTable
    #: Has a task done for each of its parts; gives what the tasks list.
    list_files: Callable[[FollowedTable, ReplayTask], Iterable[tuple[str, str]]]
    #: Sends what a journal says, all of it at once and once only: by its name.
    send: Callable[[FollowedTable, Journal], None]

    def replay(
        self, decoding: Decoding, to: Target, choice: Choice, name_server: str | None
    ) -> ReplayReport:
        """Decode bad rows again, and have each where it belongs now."""
        table = self.table
        parts = tuple(table.bad_rows.stored().parts)
        if not parts:
            return ReplayReport(0, 0, 0)
        table.prepare_replayed()
        task = ReplayTask(
            parts,
            choice,
            to,
            decoding,
            table.rows.mends_to,
            table.bad_rows.mends_to,
            table.replayed.mends_to,
        )
        files: dict[str, list[WrittenFile]] = {ROWS: [], BAD: [], DONE: []}
        numbers = {"replayed": 0, "failed": 0, "left": 0}
        for kind, facts in self.list_files(table, task):
            if kind == NUMBERS:
                numbers = {name: numbers[name] + more for name, more in json.loads(facts).items()}
            else:
                files[kind].append(WrittenFile(**json.loads(facts)))
        if numbers["replayed"] or numbers["failed"]:
            kept = {kind: tuple(some) for kind, some in files.items()}
            name = f"replay-{uuid.uuid4()}"
            journal = Journal(name, to, table.spec.topic, name_server, kept, numbers["replayed"])
            journal.write(table.directory.replay_path)
            self.finish(journal)
        else:
            table.bad_rows.discard(files[BAD])
        return ReplayReport(**numbers)

    def finish(self, journal: Journal) -> None:
        """Do what was decided, as far as it is not done."""
        table, files = self.table, journal.files
        if journal.to == "table":
            table.rows.add_named(files[ROWS], journal.name)
        elif files[DONE]:
            if journal.to == "topic" and not table.replayed.has_named(journal.name):
                self.send(table, journal)
            table.replayed.add_named(files[DONE], journal.name)
        table.bad_rows.replace_named(files[BAD], journal.name)
        table.directory.replay_path.unlink()


def _listed_by(
    spark: SparkSession,
) -> Callable[[FollowedTable, ReplayTask], list[tuple[str, str]]]:
    def listed(table: FollowedTable, task: ReplayTask) -> list[tuple[str, str]]:
        numbers: Any = spark.range(0, len(task.parts), 1, len(task.parts))
        return persistently(
            lambda: [tuple(row) for row in numbers.mapInArrow(task, LIST_SCHEMA).collect()],
            lambda reason: ReplayFailed(str(table.directory), reason),
        )

    return listed


def _send(spark: SparkSession, table: FollowedTable, journal: Journal) -> None:
    parts = tuple(table.replayed.written(journal.files[DONE]))
    frame: Any = spark.range(0, len(parts), 1, len(parts)).mapInArrow(_Sent(parts), _SENT)
    options = {
        "nameServer": journal.name_server,
        "topic": journal.topic,
        "delivery": "staged",
        "txn": journal.name,
        "onRepeat": "skip",
    }
    persistently(
        lambda: frame.write.format("rocketpipe").options(**options).mode("append").save(),
        lambda reason: ReplayFailed(
            str(table.directory),
            f"{reason}; run the same again when that is mended: what was sent is not sent twice",
        ),
    )


@dataclass(frozen=True, slots=True)
class _Sent:
    """Reads what is sent, in tasks."""

    parts: Sequence[StoredPart]

    def __call__(self, batches: Any) -> Any:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in self.parts[number].read(BAD_ROWS):
                    yield rows.select([BODY, "keys", "tags"])


def _decoding(table: FollowedTable, decode: str | None) -> Decoding:
    decoding = Decoding.of(table.spec)
    if decode is None or decode == table.spec.decode:
        return decoding
    try:
        other = Decoding.of(table.spec.with_changes(decode=decode))
    except ConfigError:
        other = None
    if other is None or other.columns.decoded != decoding.columns.decoded:
        raise ConfigError("--decode", f"{decode} gives other columns than the table has")
    return other


def _check_pattern(error: str | None) -> None:
    try:
        re.compile(error or "")
    except re.error as wrong:
        raise ConfigError("--error", f"{error!r} is no regular expression: {wrong}") from wrong
