"""Who is to live in a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.tables.table_file import TableFile
from rocketpipe.broker.tables.topics import TopicsFile
from rocketpipe.cli.serving.fleet import cores, directory
from rocketpipe.errors import ConfigError
from rocketpipe.model.topic import TopicSettings
from rocketpipe.store import roster
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.disk_error import DiskError
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.roster import Roster


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(data=tmp_path)


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "usable", lambda: 4)


def names(found: Roster | None) -> list[str] | None:
    return None if found is None else [member.name for member in found.brokers]


def alone(root: Path, *topics: str) -> None:
    """Have a directory be one that a broker had alone."""
    StoreLayout(root).commit_log.mkdir(parents=True)
    table = {
        name: TopicSettings(name=name, read_queues=4, write_queues=4, perm=6) for name in topics
    }
    TableFile(Disk(), StoreLayout(root).config / "topics.json", TopicsFile).save(
        TopicsFile(topics=table)
    )


def topics_of(root: Path) -> set[str]:
    found = TableFile(Disk(), StoreLayout(root).config / "topics.json", TopicsFile).load()
    return set() if found is None else set(found.topics)


def test_one_broker_has_its_directory_alone(config: BrokerConfig) -> None:
    assert directory.wanted(config, None) is None
    assert directory.wanted(config, 1) is None
    alone(config.data)
    assert directory.wanted(config, None) is None


def test_an_empty_directory_gets_as_many_as_are_asked_for(config: BrokerConfig) -> None:
    assert names(directory.wanted(config, 2)) == ["broker-a-0", "broker-a-1"]
    assert len(names(directory.wanted(config, "auto")) or ()) == 4


def test_with_one_core_auto_is_one_broker(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "usable", lambda: 1)
    assert directory.wanted(config, "auto") is None


def test_who_had_it_alone_stays_under_its_name(config: BrokerConfig) -> None:
    alone(config.data, "orders", "broker-a")
    wished = directory.wanted(config, 2)
    assert names(wished) == ["broker-a", "broker-a-1"]
    assert wished is not None
    assert [member.name for member in directory.settle(config, wished)] == ["broker-a-1"]
    assert roster.load(config.data) == wished
    assert topics_of(config.data / "broker-a-1") == {"orders"}


def test_those_that_are_there_stay_and_more_may_come_but_no_fewer(config: BrokerConfig) -> None:
    roster.begun("b", taken=False).grown(3).save(config.data)
    assert names(directory.wanted(config, None)) == ["b-0", "b-1", "b-2"]
    assert names(directory.wanted(config, "auto")) == ["b-0", "b-1", "b-2", "b-3"]
    assert names(directory.wanted(config, 4)) == ["b-0", "b-1", "b-2", "b-3"]
    for fewer in (1, 2):
        with pytest.raises(ConfigError, match=r"holds 3 brokers.*broker drain NAME"):
            directory.wanted(config, fewer)


def test_auto_with_fewer_cores_than_brokers_keeps_them_all(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    roster.begun("b", taken=False).grown(3).save(config.data)
    monkeypatch.setattr(cores, "usable", lambda: 1)
    assert len(names(directory.wanted(config, "auto")) or ()) == 3


def test_when_all_were_drained_one_begins_anew(config: BrokerConfig) -> None:
    roster.begun("b", taken=False).grown(1).without("b-0").save(config.data)
    assert names(directory.wanted(config, None)) == ["b-1"]


def test_what_was_interrupted_is_done_again(config: BrokerConfig) -> None:
    alone(config.data, "orders")
    wished = directory.wanted(config, 3)
    assert wished is not None

    class Breaking(Disk):
        left = 0

        def rename(self, source: Path, target: Path) -> None:
            if self.left == 0:
                raise DiskError("rename", source, OSError("killed"))
            self.left -= 1
            super().rename(source, target)

    for Breaking.left in range(20):
        try:
            directory.settle(config, wished, Breaking())
        except DiskError:
            assert roster.load(config.data) is None
        else:
            break
    assert Breaking.left > 1
    assert roster.load(config.data) == wished
    for name in ("broker-a-1", "broker-a-2"):
        assert topics_of(config.data / name) == {"orders"}
    assert directory.settle(config, wished) == []


def test_a_store_that_nobody_knows_of_is_not_taken(config: BrokerConfig) -> None:
    alone(config.data / "broker-a-1")
    wished = directory.wanted(config, 2)
    assert wished is not None
    with pytest.raises(ConfigError, match="broker-a-1 has a store already"):
        directory.settle(config, wished)


def test_a_single_broker_keeps_out_of_the_directory_of_others(config: BrokerConfig) -> None:
    directory.refuse_unless_alone(config.data, "--data")
    roster.begun("b", taken=True).grown(2).save(config.data)
    directory.refuse_unless_alone(config.data, "--data")
    roster.begun("b", taken=False).grown(2).save(config.data)
    with pytest.raises(ConfigError, match=r"several brokers \(b-0, b-1\): run them with"):
        directory.refuse_unless_alone(config.data, "--data")


def test_what_a_killed_drain_left_is_finished_before_anybody_starts(tmp_path: Path) -> None:
    directory.finish_leaving(tmp_path)  # nobody leaves a directory of one
    alone(tmp_path)
    roster.begun("broker-a", taken=True).grown(2).with_leaving("broker-a", delete=False).save(
        tmp_path
    )
    with roster.changing(tmp_path):
        directory.finish_leaving(tmp_path)  # whoever is at it goes on
    assert StoreLayout(tmp_path).commit_log.is_dir()

    directory.finish_leaving(tmp_path)

    assert not StoreLayout(tmp_path).commit_log.exists()
    assert StoreLayout(tmp_path / "drained" / "broker-a").commit_log.is_dir()
    known = roster.load(tmp_path)
    assert known is not None
    assert (names(known), known.leaving) == (["broker-a-1"], ())


def test_a_number_is_not_given_out_again_and_leaving_is_not_undone_by_growing(
    config: BrokerConfig,
) -> None:
    directory.settle(config, roster.begun("broker-a", taken=False).grown(2))
    known = roster.load(config.data)
    assert known is not None
    known.with_leaving("broker-a-1", delete=True).save(config.data)
    wished = directory.wanted(config, 3)
    assert names(wished) == ["broker-a-0", "broker-a-2", "broker-a-3"]
    assert wished is not None
    directory.settle(config, wished)
    saved = roster.load(config.data)
    assert saved is not None
    assert [each.name for each in saved.leaving] == ["broker-a-1"]
