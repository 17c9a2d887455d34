"""A process that serves, without servers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from rocketpipe.cli.serving import process


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_takes_down_what_was_started(
    capsys: pytest.CaptureFixture[str], number: int
) -> None:
    ended = []

    async def start(stack: AsyncExitStack) -> list[str]:
        stack.callback(ended.append, "down")
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), number)
        return ["boot", "ready"]

    assert process.serve_until_signal(start) == 0
    assert ended == ["down"]
    assert capsys.readouterr().out == "boot\nready\n"


def test_a_terminal_is_told_of_a_stop(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(stack: AsyncExitStack) -> list[str]:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        return ["ready"]

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert process.serve_until_signal(start) == 0
    told = capsys.readouterr().err.splitlines()
    assert told == ["stopping signal=SIGTERM; a second one ends it at once", "stopped"]


def test_a_signal_ends_a_start_that_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    ended = []

    async def start(stack: AsyncExitStack) -> list[str]:
        stack.callback(ended.append, "down")
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()
        return ["never"]

    assert process.serve_until_signal(start) == 0
    assert ended == ["down"]
    assert capsys.readouterr().out == ""


def test_what_fails_while_it_serves_takes_everything_down_with_a_code_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended: list[str] = []
    looks = iter([None, "the disk is broken"])

    async def start(stack: AsyncExitStack) -> list[str]:
        stack.callback(ended.append, "down")
        return ["ready"]

    assert process.serve_until_signal(start, lambda: next(looks)) == process.FAILED == 70
    assert ended == ["down"]
    assert "exit code 70: the disk is broken" in caplog.text


def test_a_signal_is_heard_where_failures_are_looked_for() -> None:
    async def start(stack: AsyncExitStack) -> list[str]:
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGTERM)
        return ["ready"]

    assert process.serve_until_signal(start, lambda: None) == 0


def test_what_fails_at_the_start_is_raised() -> None:
    async def start(stack: AsyncExitStack) -> list[str]:
        raise OSError("the port is taken")

    with pytest.raises(OSError, match="taken"):
        process.serve_until_signal(start)


STUCK = """
import os, signal, sys
from rocketpipe.cli.serving import process

async def stuck():
    print("stopping", flush=True)
    while True:
        pass  # it keeps the loop, and would for ever

async def start(stack):
    stack.push_async_callback(stuck)
    return ["ready"]

process.serve_until_signal(start)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_it_at_once(number: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline() == "stopping\n"
        child.send_signal(number)
        assert child.wait(timeout=30) == -number
