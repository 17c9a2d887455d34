"""The thread behind blocking clients: who is answered, who is told, and when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.blocking.background import BackgroundLoop, Life, SharedLoop
from rocketpipe.errors import LoopBlocked, SessionClosed


class Interrupted(BaseException):
    """What the signal of these tests raises, as Ctrl-C raises KeyboardInterrupt."""


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    made = BackgroundLoop()
    yield made
    made.stop()


@pytest.fixture
def interrupt_main() -> Iterator[Callable[[], None]]:
    """Raises ``Interrupted`` in the main thread, which runs the tests."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.main_thread().ident
    assert main is not None
    yield lambda: signal.pthread_kill(main, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def run_script(text: str) -> None:
    """Run a program of its own; it must end on its own, and well."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


def test_threads_get_the_results_of_their_own_calls(loop: BackgroundLoop) -> None:
    def work(start: int) -> list[int]:
        return [loop.run(double(number)) for number in range(start, start + 50)]

    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(work, range(0, 1600, 100)))
    assert found == [[2 * n for n in range(s, s + 50)] for s in range(0, 1600, 100)]


def test_calls_that_are_settled_together_wake_the_loop_once(loop: BackgroundLoop) -> None:
    """Each answered thread calls again; while they are woken one by one, nobody wakes the loop."""
    wakes = 0
    soon = loop._soon

    def counted(act: Callable[..., object], *args: object) -> None:
        nonlocal wakes
        wakes += 1
        soon(act, *args)

    loop._soon = counted  # type: ignore[method-assign]
    gates: list[asyncio.Event] = loop.run(_gates(21))
    everybody = threading.Barrier(17)

    def work() -> None:
        everybody.wait(PATIENCE_S)
        for gate in gates:
            loop.run(_counted_at(gate, 16))

    with ThreadPoolExecutor(16) as threads:
        working = [threads.submit(work) for _ in range(16)]
        everybody.wait(PATIENCE_S)
        for each in working:
            each.result(PATIENCE_S)
    assert wakes < 16 * len(gates) / 2


async def _gates(count: int) -> list[asyncio.Event]:
    return [asyncio.Event() for _ in range(count)]


_arrived: dict[asyncio.Event, int] = {}


async def _counted_at(gate: asyncio.Event, wanted: int) -> None:
    """Wait until so many calls have come here, then let all go at once."""
    _arrived[gate] = _arrived.get(gate, 0) + 1
    if _arrived[gate] == wanted:
        del _arrived[gate]
        gate.set()
    await gate.wait()


def test_an_error_is_raised_in_the_caller_with_the_place_where_it_happened(
    loop: BackgroundLoop,
) -> None:
    async def deep_down() -> None:
        raise ValueError("no such thing")

    async def outside() -> None:
        await deep_down()

    with pytest.raises(ValueError, match="no such thing") as caught:
        loop.run(outside())
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[0].startswith("test_an_error")
    assert names[-2:] == ["outside", "deep_down"]


def test_a_call_from_the_loop_itself_is_refused_instead_of_waiting_for_ever(
    loop: BackgroundLoop,
) -> None:
    async def calls_again() -> int:
        return loop.run(double(1))

    with pytest.raises(LoopBlocked, match="plain function"):
        loop.run(calls_again())


def test_who_waits_when_the_loop_ends_is_told(loop: BackgroundLoop) -> None:
    started = threading.Event()

    async def for_ever() -> None:
        started.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(loop.run, for_ever()) for _ in range(8)]
        assert started.wait(PATIENCE_S)
        loop.stop()
        for each in waiting:
            with pytest.raises(SessionClosed, match="'with'"):
                each.result(PATIENCE_S)


def test_a_call_that_comes_too_late_is_refused(loop: BackgroundLoop) -> None:
    loop.stop()
    with pytest.raises(SessionClosed):
        loop.run(double(1))


def test_a_signal_ends_the_wait_and_cancels_the_work(
    loop: BackgroundLoop, interrupt_main: Callable[[], None]
) -> None:
    cancelled = threading.Event()

    async def for_ever() -> None:
        try:
            interrupt_main()
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(Interrupted):
        loop.run(for_ever())
    assert cancelled.wait(PATIENCE_S)
    assert loop.run(double(2)) == 4


def test_work_that_was_left_cleans_up_before_the_loop_ends(
    loop: BackgroundLoop, interrupt_main: Callable[[], None]
) -> None:
    cleaned = []

    async def opening() -> None:
        try:
            interrupt_main()
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            cleaned.append("all")

    with pytest.raises(Interrupted):
        loop.run(opening())
    loop.stop()
    assert cleaned == ["all"]


def test_a_signal_to_the_main_thread_holds_nobody_else_up(
    loop: BackgroundLoop, interrupt_main: Callable[[], None]
) -> None:
    """Whoever is interrupted may have been the one that had to wake the others."""
    is_over = threading.Event()
    at_work = threading.Barrier(5, timeout=PATIENCE_S)

    def work() -> int:
        at_work.wait()
        calls = 0
        while not calls or not is_over.is_set():
            loop.run(double(calls))
            calls += 1
        return calls

    async def hurt() -> None:
        await asyncio.sleep(0)
        interrupt_main()

    with ThreadPoolExecutor(4) as threads:
        working = [threads.submit(work) for _ in range(4)]
        at_work.wait()
        interrupted = 0
        try:
            for _ in range(50):
                try:
                    loop.run(hurt())
                    while True:  # the signal may come after the call
                        loop.run(double(1))
                except Interrupted:
                    interrupted += 1
        finally:
            is_over.set()
        assert interrupted == 50
        assert all(each.result(PATIENCE_S) > 0 for each in working)


def test_a_signals_handler_may_call_too_whatever_it_interrupts(loop: BackgroundLoop) -> None:
    asked, answered = threading.Event(), asyncio.Event()
    main = threading.main_thread().ident
    assert main is not None
    got: list[int] = []

    async def beneath() -> int:
        signal.pthread_kill(main, signal.SIGUSR1)
        await asyncio.to_thread(asked.wait)
        answered.set()
        return 1

    async def above() -> int:
        asked.set()
        await answered.wait()  # so the call beneath is settled first, and its thread cannot go on
        await asyncio.sleep(0.01)
        return 2

    before = signal.signal(signal.SIGUSR1, lambda number, frame: got.append(loop.run(above())))
    try:
        got.append(loop.run(beneath()))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert got == [2, 1]


def test_all_lives_share_one_thread_that_ends_with_the_last() -> None:
    shared = SharedLoop()
    one, two = Life("one"), Life("two")
    first = shared.begin(one)
    assert shared.begin(two) is first
    shared.end(one)
    assert one.loop is None
    assert two.here().run(double(3)) == 6
    shared.end(two)
    assert first.is_over
    again = shared.begin(one)
    assert again is not first
    assert again.run(double(4)) == 8
    shared.end(one)
    assert again.is_over


def test_a_life_that_is_opened_twice_is_closed_twice() -> None:
    shared = SharedLoop()
    life = Life("the session")
    shared.begin(life)
    shared.begin(life)
    shared.end(life)
    assert life.here().run(double(1)) == 2
    shared.end(life)
    with pytest.raises(SessionClosed, match=r"the session is not open: .*'with'"):
        life.here()


def test_a_loop_that_died_is_replaced() -> None:
    shared = SharedLoop()
    life = Life("the client")
    dead = shared.begin(life)
    dead.stop()
    alive = shared.begin(life)
    assert alive.run(double(1)) == 2
    shared.end(life)
    assert alive.is_over


def test_nothing_is_started_by_an_import() -> None:
    run_script(
        """
        import threading
        import rocketpipe.blocking
        assert threading.enumerate() == [threading.main_thread()]
        """
    )


def test_a_process_ends_though_nobody_closed_its_clients() -> None:
    run_script(
        """
        from rocketpipe.blocking import Producer
        Producer("127.0.0.1:1").__enter__()
        """
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_told_and_may_open_clients_of_its_own() -> None:
    run_script(
        """
        import os
        from rocketpipe.blocking import Producer
        from rocketpipe.errors import ConnectionLost, ProcessForked

        def refused(producer, error):
            try:
                producer.send("orders", b"x")
            except error:
                return
            raise AssertionError("not refused")

        with Producer("127.0.0.1:1") as producer:
            child = os.fork()
            if not child:
                status = 1
                try:
                    refused(producer, ProcessForked)
                    producer.__exit__(None, None, None)
                    with Producer("127.0.0.1:1") as own:
                        refused(own, ConnectionLost)
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
            refused(producer, ConnectionLost)
        """
    )
