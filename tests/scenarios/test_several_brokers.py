"""``serve --brokers N``: several brokers of one directory, killed and opened again."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.waiting import PATIENCE_S, until

from rocketpipe import Admin, Producer, PullConsumer
from rocketpipe.errors import RocketPipeError

pytestmark = pytest.mark.scenario


class Serving:
    """One ``serve`` that runs, and the brokers that are its children."""

    def __init__(self, scratch: Path, *words: str) -> None:
        self._log = scratch / "serve.log"
        command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", *words]
        command += ["--data", str(scratch / "data"), "--small-files", "--http", "127.0.0.1:0"]
        command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        output = self.process.stdout
        assert output is not None
        try:
            assert select.select([output], [], [], PATIENCE_S)[0], "it says nothing"
            line = ""
            while not line.startswith("ready "):  # all lines come in one write
                line = output.readline()
                assert line, self.log
        except AssertionError:
            self.process.kill()
            raise
        self.addresses = dict(word.split("=", 1) for word in line.split()[1:])
        self.name_server = self.addresses.pop("namesrv")
        self.http = self.addresses.pop("http")

    @property
    def log(self) -> str:
        return self._log.read_text()

    def children(self) -> dict[str, int]:
        """Process ids of brokers, by their names."""
        me = self.process.pid
        found = {}
        for child in Path(f"/proc/{me}/task/{me}/children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
            if "--name" in words:
                found[words[words.index("--name") + 1]] = int(child)
        return found

    def ready(self) -> bool:
        try:
            with urlopen(f"http://{self.http}/readyz", timeout=PATIENCE_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def serving(scratch: Path, *words: str) -> Iterator[Serving]:
    served = Serving(scratch, *words)
    try:
        yield served
    finally:
        with served.process:
            served.process.terminate()
            assert served.process.wait(PATIENCE_S) in (0, -signal.SIGKILL)


def is_alive(process: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return False


def bodies(word: str, count: int = 24) -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(count)]


async def send(name_server: str, messages: list[bytes]) -> set[str]:
    """Send each until it is acknowledged; gives the brokers that took them."""
    used = set()
    async with Producer(name_server) as producer, asyncio.timeout(PATIENCE_S):
        for body in messages:
            while True:
                try:
                    result = await producer.send("orders", body)
                except RocketPipeError as error:
                    if error.retryable or error.stale_route:
                        continue
                    raise
                used.add(result.queue.broker_name)
                break
    return used


async def read(name_server: str, group: str, wanted: set[bytes]) -> None:
    """Read the topic until everything wanted has come."""
    found: set[bytes] = set()
    async with PullConsumer(name_server, group=group, start="first") as consumer:
        await consumer.subscribe("orders")
        async with asyncio.timeout(PATIENCE_S):
            while not wanted <= found:
                found |= {message.body for message in await consumer.poll()}


async def at_both(name_server: str, topic: str) -> None:
    """Wait until both brokers have a topic that was made while one of them was down."""
    async with Admin(name_server) as admin, asyncio.timeout(PATIENCE_S):
        while topic not in await admin.brokers.topics("broker-a-1"):
            pass


def command(*words: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "rocketpipe.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def refused(scratch: Path, *words: str) -> tuple[int, str]:
    data = ["--data", str(scratch / "data"), "--namesrv", "127.0.0.1:0"]
    code, printed = command("serve", *words, *data)
    (line,) = [line for line in printed.splitlines() if line.startswith("rocketpipe serve:")]
    return code, line


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks for processes in /proc")
async def test_a_directory_of_one_becomes_one_of_three_and_loses_nothing(tmp_path: Path) -> None:
    sent = bodies("alone")
    with serving(tmp_path) as one:
        async with Admin(one.name_server) as admin:
            await admin.topics.create("orders", queues=2)
            await admin.groups.create("readers")
        assert await send(one.name_server, sent) == {"broker-a"}

    with serving(tmp_path, "--brokers", "2") as two:
        assert set(two.addresses) == {"broker-a", "broker-a-1"}
        assert two.ready()
        code, line = refused(tmp_path, "--brokers", "2")
        assert code == 1, line
        assert "is locked" in line
        # The new one has the topics and groups, and takes its share.
        async with Admin(two.name_server) as admin:
            assert set((await admin.topics.show("orders")).settings) == {"broker-a", "broker-a-1"}
        create = ["topic", "create", "-n", two.name_server, "--queues-in-all"]
        code, printed = await asyncio.to_thread(command, *create, "3", "odd")
        assert code == 2
        assert "3 queues cannot be as many at each of 2 brokers: 4 can, or 2" in printed
        code, printed = await asyncio.to_thread(command, *create, "4", "even")
        assert code == 0
        assert "4 queues in all, at 2 brokers" in printed
        sent += (more := bodies("both"))
        assert await send(two.name_server, more) == {"broker-a", "broker-a-1"}

        before = two.children()
        sending = asyncio.create_task(send(two.name_server, during := bodies("during", 400)))
        os.kill(before["broker-a-1"], signal.SIGKILL)
        await until(lambda: "broker-a-1 died (SIGKILL), starts again in 0.5 s" in two.log)
        assert not two.ready()
        async with Admin(two.name_server) as admin:
            await admin.topics.create("meanwhile", queues=1)
        await until(lambda: "broker-a-1 serves again at" in two.log)
        assert f"serves again at {two.addresses['broker-a-1']}" in two.log
        await until(two.ready)
        await at_both(two.name_server, "meanwhile")
        await sending
        sent += during
        assert two.children()["broker-a"] == before["broker-a"]
        await read(two.name_server, "readers", set(sent))

        brokers = two.children().values()
        two.process.kill()
        await until(lambda: not any(map(is_alive, brokers)))

    code, line = refused(tmp_path, "--brokers", "1")
    assert code == 2
    assert "holds 2 brokers (broker-a, broker-a-1)" in line
    assert "`rocketpipe broker drain NAME`" in line

    with serving(tmp_path, "--brokers", "3") as three:
        assert set(three.addresses) == {"broker-a", "broker-a-1", "broker-a-2"}
        sent += (more := bodies("three"))
        assert await send(three.name_server, more) == set(three.addresses)
        await read(three.name_server, "others", set(sent))

    with serving(tmp_path) as again:
        assert set(again.addresses) == {"broker-a", "broker-a-1", "broker-a-2"}
    log = again.log
    assert log.rindex("broker unregistered") < log.rindex(" stopped")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks for processes in /proc")
async def test_one_that_cannot_start_says_so_and_the_other_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path, "--brokers", "2") as two:
        assert set(two.addresses) == {"broker-a-0", "broker-a-1"}
    (tmp_path / "data" / "broker-a-1" / "format").write_text("rocketpipe store format 99\n")

    with serving(tmp_path) as served:
        assert set(served.addresses) == {"broker-a-0"}
        assert not served.ready()
        assert await send(served.name_server, bodies("one")) == {"broker-a-0"}
        await until(lambda: "broker-a-1 does not start: the others go on" in served.log)
        assert "3 times in a row" in served.log
        # What is mended is found by itself.
        (tmp_path / "data" / "broker-a-1" / "format").unlink()
        await until(lambda: "broker-a-1 serves again" in served.log)
        await until(served.ready)

    (tmp_path / "data" / "broker-a-0" / "format").write_text("rocketpipe store format 99\n")
    (tmp_path / "data" / "broker-a-1" / "format").write_text("rocketpipe store format 99\n")
    code, line = refused(tmp_path)
    assert code == 1
    assert "format 99" in line
