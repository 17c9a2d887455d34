"""What servers say of themselves: on a terminal, into a pipe, as JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from rocketpipe.auth.config import AuthConfig
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.cli.serving import banner
from rocketpipe.cli.serving.banner import Banner, Fact, Found
from rocketpipe.store.config import FlushMode, StoreConfig


class Tty(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def told() -> Banner:
    return Banner(
        boot=["The broker boot success."],
        ready={"namesrv": "127.0.0.1:1", "broker": "127.0.0.1:2"},
        facts=[
            Fact("Data", "in a directory " * 8, "data", {"messages": 3}),
            Fact("Access", "everybody", "access", "all", alarming=True),
        ],
        next_steps=["rocketpipe doctor"],
    )


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_pipe_gets_plain_lines_and_the_ready_line_last(told: Banner) -> None:
    lines = told.lines(out=io.StringIO())
    assert lines[0] == "The broker boot success."
    assert lines[2:] == [
        "Access: everybody",
        "Try: rocketpipe doctor",
        "ready namesrv=127.0.0.1:1 broker=127.0.0.1:2",
    ]
    assert "\x1b" not in "".join(lines)


def test_a_terminal_gets_colours_and_lines_that_fit(
    told: Banner, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = told.lines(out=Tty())
    assert "The broker boot success." not in lines
    assert any("\x1b[33meverybody" in line for line in lines), "what alarms stands out"
    assert lines[-1] == "ready namesrv=127.0.0.1:1 broker=127.0.0.1:2"
    monkeypatch.setenv("NO_COLOR", "1")
    plain = told.lines(out=Tty())
    assert "\x1b" not in "".join(plain)
    assert max(map(len, plain)) <= 60


def test_json_is_one_line_with_every_fact(told: Banner) -> None:
    (line,) = told.lines("json", out=Tty())
    assert json.loads(line) == {
        "event": "ready",
        "namesrv": "127.0.0.1:1",
        "broker": "127.0.0.1:2",
        "data": {"messages": 3},
        "access": "all",
        "next": ["rocketpipe doctor"],
    }


def test_durability_is_said_in_what_a_message_survives() -> None:
    store = StoreConfig(root=Path("x"), flush_interval_ms=500, reserved_hours=48)
    text = banner.durability(store).text
    assert "a power cut may take the last 500 ms or 4 MiB, with a slow disk up to 64 MiB" in text
    assert text.endswith("kept for 48 hours")
    sync = banner.durability(StoreConfig(root=Path("x"), flush=FlushMode.SYNC))
    assert "survives a power cut" in sync.text


def test_who_reaches_the_ports_is_said_and_strangers_are_alarming() -> None:
    alone = banner.access(["127.0.0.1", "::1"], AuthConfig())
    assert not alone.alarming
    assert "only this machine" in alone.text
    others = banner.access(["127.0.0.1", "0.0.0.0"], AuthConfig())
    assert others.alarming
    assert "0.0.0.0" in others.text
    assert others.value["reachable"] == "other machines"


def test_an_advertised_address_is_told_only_if_it_is_another() -> None:
    assert banner.advertised("127.0.0.1:1", "127.0.0.1:1") == []
    (fact,) = banner.advertised("192.0.2.1:1", "127.0.0.1:1")
    assert fact.value == "192.0.2.1:1"


def test_next_steps_are_first_steps_in_a_new_place_and_can_be_copied() -> None:
    usual = banner.next_steps("127.0.0.1:9876")
    assert usual[0] == "rocketpipe topic create orders --queues 4"
    elsewhere = banner.next_steps("127.0.0.1:1;127.0.0.1:2", found=Found.STOPPED)
    assert elsewhere[1] == "rocketpipe doctor -n '127.0.0.1:1;127.0.0.1:2'"
    assert "rocketpipe broker -n" in banner.next_steps("127.0.0.1:1", ours=False)[0]


def test_sizes_are_said_as_people_do() -> None:
    assert [banner.size_text(count) for count in (0, 1023, 4 << 20, 1_600_000)] == [
        "0 B",
        "1023 B",
        "4 MiB",
        "1.5 MiB",
    ]


async def test_data_is_new_then_left_in_order_then_by_a_crash(tmp_path: Path) -> None:
    async def data_of_a_run() -> Fact:
        found = banner.found_in(tmp_path)
        cores: list[Core] = []
        config = BrokerConfig(data=tmp_path, port=0, store=StoreConfig.embedded(tmp_path))
        async with broker(config, watch=cores.append):
            assert banner.profile(config).text == "dev: topics and groups are made when first used"
            return banner.data(cores[0], found)

    assert "(new)" in (await data_of_a_run()).text
    again = await data_of_a_run()
    assert again.text == f"{tmp_path} (0 topics, 0 messages, 0 B; after a stop in order)"
    assert not again.alarming
    (tmp_path / "abort").write_text("1")
    crashed = await data_of_a_run()
    assert crashed.alarming
    assert crashed.value["found"] == "crashed"


def test_a_profile_says_who_makes_topics_and_groups(tmp_path: Path) -> None:
    config = BrokerConfig(
        data=tmp_path, profile="prod", auto_create_topics=False, auto_create_groups=False
    )
    assert banner.profile(config).text == "prod: topics and groups are made by operators"
    some = BrokerConfig(data=tmp_path, profile="prod", auto_create_topics=False)
    assert banner.profile(some).text == "prod: groups are made when first used"


def test_the_version_names_the_engine() -> None:
    fact = banner.version()
    assert fact.value["engine"] in fact.text


@pytest.mark.parametrize(
    ("replication", "number", "words"),
    [
        (
            ReplicationConfig(role=BrokerRole.ASYNC_MASTER),
            0,
            ["ASYNC_MASTER; sends do not wait", "slaves connect to 10.0.0.1:40912"],
        ),
        (
            ReplicationConfig(role=BrokerRole.SYNC_MASTER, ha_port=7),
            0,
            ["SYNC_MASTER", "every in-sync replica", "fewer than 2", "RocketMQ 5"],
        ),
        (
            ReplicationConfig(role=BrokerRole.SLAVE, ha_port=0),
            1,
            ["SLAVE 1 of broker-a; follows the master"],
        ),
        (
            ReplicationConfig(role=BrokerRole.SLAVE, master="m:1"),
            2,
            ["SLAVE 2 of broker-a; follows m:1"],
        ),
        (
            ReplicationConfig(zookeepers=("z:1", "z:2"), ha_port=0),
            -1,
            [
                "slaves connect to 10.0.0.1:40912",
                "a leader is elected by z:1;z:2; sends are answered when every in-sync replica",
            ],
        ),
    ],
)
def test_a_broker_with_replicas_says_what_it_is_to_them(
    replication: ReplicationConfig, number: int, words: list[str]
) -> None:
    config = BrokerConfig(data=Path(), broker_id=number, replication=replication)
    (fact,) = banner.group(config, "10.0.0.1:40912")
    assert [word for word in words if word not in fact.text] == []
    leads = replication.elected or replication.role is not BrokerRole.SLAVE
    assert ("wait" in fact.text or "answered" in fact.text) is leads
    assert ("slaves connect to" in fact.text) is leads
    assert fact.value["waits"] is replication.waits
    assert banner.group(BrokerConfig(data=Path()), "") == []
