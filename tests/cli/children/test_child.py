"""One process that is kept running."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from rocketpipe.cli.children import child as child_module
from rocketpipe.cli.children.child import Child, NotPossible, State
from rocketpipe.cli.children.events import Event
from rocketpipe.cli.children.output import LogFile
from rocketpipe.clock import SystemClock

READY = 'print("starting"); print(\'{"event": "ready"}\', flush=True)'
HEEDS = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
SERVES = f"{HEEDS}; {READY}; import time; time.sleep(600)"
DEAF = SERVES.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")


@pytest.fixture
def pipe() -> Iterator[int]:
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


class Told(list[Event]):
    def of(self, what: str) -> list[str]:
        return [event.text for event in self if event.what == what]


@asynccontextmanager
async def kept(
    directory: Path, pipe: int, program: Callable[[], str] = lambda: SERVES, **more: Any
) -> AsyncIterator[tuple[Child, Told]]:
    told = Told()
    child = Child(
        "broker-a",
        lambda: [sys.executable, "-c", program()],
        address=lambda: "127.0.0.1:1",
        output=LogFile(directory / "logs" / "broker-a.log"),
        pipe=pipe,
        clock=SystemClock(),
        tell=told.append,
        changed=lambda: None,
        **more,
    )
    keeping = asyncio.ensure_future(child.keep())
    try:
        yield child, told
    finally:
        child.end_now()
        await until(lambda: child.pid is None)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


@pytest.fixture(autouse=True)
def short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "REST_MS", 50)


async def test_it_runs_when_it_is_started_and_says_that_it_serves(
    tmp_path: Path, pipe: int
) -> None:
    async with kept(tmp_path, pipe) as (child, told):
        assert (child.state, child.pid) == (State.STOPPED, None)
        child.start()
        with pytest.raises(NotPossible, match="broker-a runs already"):
            child.start()
        await child.ready.wait()
        assert child.state is State.RUNNING
        assert child.pid
        assert not told
        await child.stop()
        assert (child.state, child.pid) == (State.STOPPED, None)
        assert not told


async def test_one_that_dies_is_started_again(tmp_path: Path, pipe: int) -> None:
    async with kept(tmp_path, pipe) as (child, told):
        child.start()
        await child.ready.wait()
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: told.of("serves"))
        assert told.of("died") == ["broker-a died (SIGKILL), starts again in 0.05 s"]
        assert child.starts == 2
        assert child.pid != first


async def test_one_that_dies_as_it_starts_is_started_again_and_its_log_is_named(
    tmp_path: Path, pipe: int
) -> None:
    programs = iter(["import sys; sys.exit('no')", SERVES])
    async with kept(tmp_path, pipe, lambda: next(programs)) as (child, told):
        child.start()
        await child.ready.wait()
        assert told.of("died")[0].startswith("broker-a died (exit code 1) while it started")
        assert told.of("died")[0].endswith(f"see {tmp_path / 'logs' / 'broker-a.log'}")
        assert (tmp_path / "logs" / "broker-a.log").read_text() == "no\n"


async def test_one_that_cannot_be_started_is_tried_again(tmp_path: Path, pipe: int) -> None:
    def full() -> str:
        raise OSError("no space left")

    programs = iter([full, lambda: SERVES])
    async with kept(tmp_path, pipe, lambda: next(programs)()) as (child, told):
        child.start()
        await child.ready.wait()
        assert "cannot be started: no space left" in told.of("died")[0]


async def test_one_that_is_killed_stays_dead_until_it_is_started(tmp_path: Path, pipe: int) -> None:
    async with kept(tmp_path, pipe) as (child, told):
        with pytest.raises(NotPossible, match="does not run: it is stopped"):
            await child.kill()
        child.start()
        await child.ready.wait()
        await child.kill()
        assert (child.state, child.pid) == (State.KILLED, None)
        await asyncio.sleep(0.1)  # twice the rest of one that died
        assert (child.state, child.starts) == (State.KILLED, 1)
        assert not told.of("died")
        with pytest.raises(NotPossible, match="does not run: it is killed"):
            await child.kill()
        child.start()
        await child.ready.wait()
        assert (child.state, child.starts) == (State.RUNNING, 2)


async def test_one_that_rests_can_be_killed_or_started_at_once(
    tmp_path: Path, pipe: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "REST_MS", 600_000)
    async with kept(tmp_path, pipe) as (child, _):
        for starts in (1, 2):
            if starts == 1:
                child.start()
            await child.ready.wait()
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            await until(lambda: child.state is State.DIED)
            child.start()
        await child.ready.wait()
        assert child.starts == 3
        await child.kill()
        assert child.state is State.KILLED


async def test_one_that_is_killed_while_it_is_made_does_not_live(tmp_path: Path, pipe: int) -> None:
    async with kept(tmp_path, pipe) as (child, _):
        child.start()
        await asyncio.sleep(0)
        await child.kill()
        assert (child.state, child.pid) == (State.KILLED, None)


async def test_one_that_is_paused_goes_on_when_it_is_told(tmp_path: Path, pipe: int) -> None:
    async with kept(tmp_path, pipe) as (child, told):
        with pytest.raises(NotPossible, match="does not run"):
            child.pause()
        child.start()
        await child.ready.wait()
        with pytest.raises(NotPossible, match="is not paused: it is running"):
            child.resume()
        child.pause()
        assert child.state is State.PAUSED
        assert child.pid is not None
        stat = Path(f"/proc/{child.pid}/stat")
        await until(lambda: b") T " in stat.read_bytes())
        child.resume()
        assert child.state is State.RUNNING
        await until(lambda: b") T " not in stat.read_bytes())
        assert told.of("resumed") == ["broker-a goes on"]


async def test_one_that_is_paused_for_a_while_goes_on_by_itself(tmp_path: Path, pipe: int) -> None:
    async with kept(tmp_path, pipe) as (child, told):
        child.start()
        await child.ready.wait()
        child.pause(20)
        await until(lambda: child.state is State.RUNNING)
        assert told.of("resumed")


async def test_one_that_is_paused_ends_in_order(
    tmp_path: Path, pipe: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kept(tmp_path, pipe) as (child, told):
        child.start()
        await child.ready.wait()
        child.pause()
        monkeypatch.setattr(child_module, "STOP_MS", 10_000)
        await child.stop()
        assert child.state is State.STOPPED
        assert not told.of("killed")


async def test_one_that_does_not_end_is_killed(
    tmp_path: Path, pipe: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "STOP_MS", 20)
    async with kept(tmp_path, pipe, lambda: DEAF) as (child, told):
        child.start()
        await child.ready.wait()
        await child.stop()
        assert told.of("killed")
        assert (child.state, child.pid) == (State.STOPPED, None)


async def test_one_that_dies_again_and_again_rests_longer_and_says_how_often(
    tmp_path: Path, pipe: int
) -> None:
    programs = iter(["import sys; sys.exit('no')"] * 3 + [SERVES])
    async with kept(tmp_path, pipe, lambda: next(programs), rest_ms=lambda deaths: 10 * deaths) as (
        child,
        told,
    ):
        child.start()
        await child.ready.wait()
        assert [text.partition(";")[0] for text in told.of("died")] == [
            "broker-a died (exit code 1) while it started, starts again in 0.01 s",
            "broker-a died (exit code 1) while it started, 2 times in a row, "
            "starts again in 0.02 s",
            "broker-a died (exit code 1) while it started, 3 times in a row, "
            "starts again in 0.03 s",
        ]


async def test_how_often_it_died_is_forgotten_when_it_served_for_a_while(
    tmp_path: Path, pipe: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "STEADY_MS", 0)
    async with kept(tmp_path, pipe) as (child, told):
        child.start()
        for served in (1, 2):
            await until(lambda: child.starts == served and child.ready.is_set())  # noqa: B023
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            await until(lambda: len(told.of("died")) == served)  # noqa: B023
        assert "in a row" not in told.of("died")[1]


async def test_what_it_says_when_it_is_ready_is_kept(tmp_path: Path, pipe: int) -> None:
    says = SERVES.replace('{"event": "ready"}', '{"event": "ready", "broker": "127.0.0.1:7"}')
    async with kept(tmp_path, pipe, lambda: says) as (child, _):
        child.start()
        await child.ready.wait()
        assert child.told["broker"] == "127.0.0.1:7"


async def test_one_that_says_nothing_is_asked(tmp_path: Path, pipe: int) -> None:
    answers = iter([False, True])
    async with kept(
        tmp_path, pipe, lambda: "import time; time.sleep(600)", answers=lambda: next(answers)
    ) as (child, _):
        child.start()
        await child.ready.wait()
        assert child.state is State.RUNNING
