"""Brokers as child processes; small programs stand in for them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import until

from rocketpipe.cli.serving.fleet import fleet as fleet_module
from rocketpipe.cli.serving.fleet.commands import Commands
from rocketpipe.cli.serving.fleet.fleet import Fleet, NoBrokerStarts, rest_ms
from rocketpipe.clock import SystemClock
from rocketpipe.store import roster
from rocketpipe.store.roster import Member, MemberState

SERVES = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0));"
    'print(\'{"event": "ready", "broker": "127.0.0.1:1"}\', flush=True); time.sleep(600)'
)
FAILS = "import sys; sys.exit('the log is damaged')"
BROKERS = roster.begun("b", taken=False).grown(2)


class Programs(Commands):
    """Commands that run other programs."""

    def __init__(self, program: Callable[[str], str]) -> None:
        self._program = program
        self.moved: list[str] = []
        self.states: list[str] = []

    def of(self, member: Member, name_server: str) -> list[str]:
        self.states.append(f"{member.name} {member.state}")
        return [sys.executable, "-c", self._program(member.name)]

    def address(self, member: Member) -> str:
        return f"127.0.0.1:{member.number + 1}"

    def another_port(self, member: Member) -> None:
        self.moved.append(member.name)


@pytest.fixture(autouse=True)
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "FIRST_REST_MS", 10)
    monkeypatch.setattr(fleet_module, "_LOOK_EVERY_MS", 5)


@asynccontextmanager
async def serving(
    data: Path, program: Callable[[str], str] = lambda _: SERVES
) -> AsyncIterator[tuple[Fleet, Programs]]:
    BROKERS.save(data)
    commands = Programs(program)
    fleet = Fleet(data, BROKERS, commands, SystemClock(), {})
    async with fleet.serving("127.0.0.1:9876"):
        yield fleet, commands


def test_rests_become_longer_up_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert [rest_ms(deaths) for deaths in (1, 2, 3, 8, 9, 10_000)] == [
        500,
        1000,
        2000,
        60_000,
        60_000,
        60_000,
    ]


async def test_all_serve_inside_the_block_and_none_behind_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (fleet, _):
        assert list(fleet.children) == ["b-0", "b-1"]
        assert fleet.problems() == {}
        assert fleet.address("b-1") == "127.0.0.1:2"
        pids = [child.pid for child in fleet.children.values()]
        assert None not in pids
    for pid in pids:
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_one_that_dies_is_told_of_and_started_again_and_the_other_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as (fleet, commands):
        first, second = fleet.children.values()
        kept = first.pid
        assert second.pid is not None
        os.kill(second.pid, signal.SIGKILL)
        await until(lambda: second.starts == 2 and second.ready.is_set())
        assert caplog.messages == [
            "b-1 died (SIGKILL), starts again in 0.01 s",
            "b-1 serves again at 127.0.0.1:2",
        ]
        assert first.pid == kept
        assert commands.moved == [], "clients know where it was"


async def test_one_that_does_not_start_is_tried_again_and_said_to_be_hopeless_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mended: list[str] = []
    async with serving(tmp_path, lambda name: SERVES if name == "b-0" or mended else FAILS) as (
        fleet,
        commands,
    ):
        assert list(fleet.problems()) == ["b-1"]
        await until(lambda: fleet.children["b-1"].deaths >= 4)
        hopeless = [line for line in caplog.messages if "does not start" in line]
        assert len(hopeless) == 1
        assert f"store check {tmp_path / 'b-1'}" in hopeless[0]
        assert caplog.messages[0].endswith("; the log is damaged")
        assert commands.moved, "its port may have been the reason"
        mended.append("b-1")
        await until(lambda: not fleet.problems())


async def test_when_none_starts_that_is_the_end(tmp_path: Path) -> None:
    with pytest.raises(NoBrokerStarts, match=r"^the log is damaged$"):
        async with serving(tmp_path, lambda _: FAILS):
            raise AssertionError("nobody serves")


async def test_one_that_left_the_roster_is_ended_and_not_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as (fleet, _):
        leaving = fleet.children["b-1"]
        (tmp_path / roster.FILE_NAME).write_bytes(b"damaged")
        await until(lambda: any("stay as they are" in line for line in caplog.messages))
        assert leaving.pid is not None
        BROKERS.without("b-1").save(tmp_path)
        await until(lambda: list(fleet.children) == ["b-0"])
        assert leaving.pid is None
        assert leaving.starts == 1
        assert fleet.problems() == {}


async def test_one_that_is_drained_and_dies_is_started_as_the_roster_has_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (fleet, commands):
        BROKERS.with_state("b-1", MemberState.DRAINING).save(tmp_path)
        second = fleet.children["b-1"]
        assert second.pid is not None
        os.kill(second.pid, signal.SIGKILL)
        await until(lambda: second.starts == 2 and second.ready.is_set())
        assert commands.states[-1] == "b-1 draining"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the platform has no such call")
async def test_each_is_kept_on_its_core(tmp_path: Path) -> None:
    BROKERS.save(tmp_path)
    core = min(os.sched_getaffinity(0))
    fleet = Fleet(tmp_path, BROKERS, Programs(lambda _: SERVES), SystemClock(), {"b-1": core})
    async with fleet.serving("127.0.0.1:9876"):
        pids = [child.pid for child in fleet.children.values()]
        assert pids[0] is not None
        assert pids[1] is not None
        assert os.sched_getaffinity(pids[0]) == os.sched_getaffinity(0)
        assert os.sched_getaffinity(pids[1]) == {core}
