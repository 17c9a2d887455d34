"""``rocketpipe serve`` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketpipe import Producer, PullConsumer

COMMAND = str(Path(sys.executable).parent / "rocketpipe")


@contextmanager
def serving(data: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command, and the line it printed when it was ready."""
    command = [COMMAND, "serve", "--data", str(data), "--namesrv", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--broker", "127.0.0.1:0", "--small-files", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_serves_until_a_signal_says_stop(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as (process, ready):
        assert ready.startswith("ready namesrv=127.0.0.1:")
        addresses = dict(word.split("=") for word in ready.split()[1:])
        async with Producer(addresses["namesrv"]) as producer:
            result = await producer.send("orders", b"x")
        assert result.durable
        os.kill(process.pid, number)
        assert process.wait(timeout=20) == 0


async def test_what_was_sent_is_there_after_a_stop_and_after_a_kill(tmp_path: Path) -> None:
    sent = set()
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        with serving(tmp_path) as (process, ready):
            servers = dict(word.split("=") for word in ready.split()[1:])
            async with Producer(servers["namesrv"]) as producer:
                body = b"message %d" % len(sent)
                assert (await producer.send("orders", body)).durable
                sent.add(body)
            async with PullConsumer(servers["namesrv"], group=f"g{len(sent)}") as consumer:
                await consumer.subscribe("orders")
                found: set[bytes] = set()
                while found < sent:
                    found |= {message.body for message in await consumer.poll()}
            assert found == sent
            os.kill(process.pid, number)
            process.wait(timeout=20)


async def test_sync_flush_and_the_size_of_files_are_chosen_at_the_start(tmp_path: Path) -> None:
    with serving(tmp_path, "--flush", "sync") as (_, ready):
        servers = dict(word.split("=") for word in ready.split()[1:])
        async with Producer(servers["namesrv"]) as producer:
            assert (await producer.send("orders", b"x", timeout_ms=30_000)).durable
    segment = tmp_path / "commitlog" / f"{0:020d}"
    assert segment.stat().st_size == 16 << 20


@pytest.mark.parametrize("option", ["--namesrv", "--broker"])
def test_an_address_that_others_can_reach_needs_a_word_of_consent(
    tmp_path: Path, option: str
) -> None:
    refused = subprocess.run(
        [COMMAND, "serve", "--data", str(tmp_path), option, "0.0.0.0:0"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == 2
    assert "--insecure" in refused.stderr
    assert "access control" in refused.stderr


def test_what_is_no_address_is_named(tmp_path: Path) -> None:
    refused = subprocess.run(
        [COMMAND, "serve", "--data", str(tmp_path), "--broker", "nonsense"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == 2
    assert "'nonsense' is not host:port" in refused.stderr


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with serving(tmp_path / "first") as (_, ready):
        taken = ready.split()[1].removeprefix("namesrv=")
        second = subprocess.run(
            [COMMAND, "serve", "--data", str(tmp_path / "second"), "--namesrv", taken],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert second.returncode == 1
    assert f"cannot listen on {taken}" in second.stderr
