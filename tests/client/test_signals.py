"""Signals that end a wait: in this process, and in programs that run consumers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rocketpipe.client.signals import first_signal
from rocketpipe.testing import Kit

ASYNC = """
import asyncio, sys
from rocketpipe import PushConsumer

consumer = PushConsumer(sys.argv[1], group="till", start="first")

@consumer.on("drinks")
async def bill(message):
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print("billed", flush=True)

asyncio.run(consumer.run())
print("closed", consumer.is_open)
"""
BLOCKING = """
import sys
from rocketpipe.blocking import PushConsumer

consumer = PushConsumer(sys.argv[1], group="till", start="first")

@consumer.on("drinks")
def bill(message):
    print("begun", flush=True)
    sys.stdin.readline()
    print("billed", flush=True)

consumer.run()
print("closed", consumer.is_open)
"""


@contextmanager
def heard_by(number: int, handler: Any) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_acts_and_the_second_is_who_had_it_before(number: int) -> None:
    before: list[int] = []
    acted: list[int] = []
    with heard_by(number, lambda number, frame: before.append(number)):
        with first_signal(lambda: acted.append(number)) as came:
            assert not came()
            signal.raise_signal(number)
            assert (acted, before, came()) == ([number], [], True)
            signal.raise_signal(number)
            assert (acted, before) == ([number], [number])
        with first_signal(lambda: acted.append(number)):
            pass
        signal.raise_signal(number)
        assert (acted, before) == ([number], [number, number])


def test_what_is_ignored_or_taken_meanwhile_stays_so() -> None:
    acted: list[str] = []
    with heard_by(signal.SIGTERM, signal.SIG_IGN):
        with first_signal(lambda: acted.append("ignored")):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    with heard_by(signal.SIGTERM, signal.SIG_DFL):
        with first_signal(lambda: acted.append("taken")):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    assert not acted


def test_a_thread_that_hears_no_signals_changes_none() -> None:
    seen: list[Any] = []

    def look() -> None:
        with first_signal(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", [ASYNC, BLOCKING], ids=["asyncio", "blocking"])
def test_a_program_that_is_told_to_end_finishes_what_it_has(
    rocketpipe: Kit, program: str, number: int
) -> None:
    with rocketpipe.blocking.producer() as producer:
        producer.send("drinks", b"one espresso")
    with subprocess.Popen(
        [sys.executable, "-c", program, rocketpipe.name_server],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What runs in the background of a shell ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        os.kill(running.pid, number)
        out, said = running.communicate("go on\n", timeout=60)
    assert (out, said, running.returncode) == ("billed\nclosed False\n", "", 0)
    with rocketpipe.blocking.admin() as admin:
        assert admin.progress.of_group("till").lag == 0
