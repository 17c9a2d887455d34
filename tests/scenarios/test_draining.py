"""``broker drain``: a broker of several is read empty and taken out, and nothing is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.scenarios.test_several_brokers import Serving, bodies, serving
from tests.waiting import PATIENCE_S, until

from rocketpipe import Admin, Message, Producer, PushConsumer, ReceivedMessage, Retry
from rocketpipe.store import roster
from rocketpipe.store.roster import MemberState

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.skipif(
        not Path("/proc/self/task").exists(), reason="it looks for processes in /proc"
    ),
]
GONE = "broker-a-1"


def command(served: Serving, *words: str) -> list[str]:
    start = [sys.executable, "-m", "rocketpipe.cli.main", "broker", "drain", GONE]
    return [*start, "-n", served.name_server, "-o", "json", *words]


async def drain(served: Serving, *words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command(served, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(4 * PATIENCE_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_drained_broker_is_read_empty_and_the_rest_opens_without_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    handled: Counter[bytes] = Counter()
    failed: set[bytes] = set()

    async def handle(message: ReceivedMessage) -> None:
        if message.body.endswith(b"7") and message.body not in failed:
            failed.add(message.body)
            raise Retry(delay_level=1)
        handled[message.body] += 1

    with serving(tmp_path, "--brokers", "2") as two:
        names = two.name_server
        async with Admin(names) as admin, Producer(names) as producer:
            await admin.topics.create("orders", queues=2)
            await admin.groups.create("readers")
            sent = bodies("early", 40)
            for body in sent:
                await producer.send("orders", body)
            for body in (later := bodies("later", 4)):
                await producer.send(Message("orders", body, delay_ms=4000))
            sent += later

            # Nobody reads them: nothing is changed.
            code, _, err = await drain(two)
            assert code == 1
            assert "no group reads orders" in err
            assert "nothing was changed" in err

            consumer = PushConsumer(names, group="readers", start="first")
            consumer.subscribe("orders", handle)
            async with consumer:
                draining = asyncio.create_task(drain(two))
                await until(lambda: _state(data) == MemberState.DRAINING)
                for body in (during := bodies("during", 40)):
                    await producer.send("orders", body)
                sent += during
                code, out, err = await draining
                assert code == 0, err
                assert '"state": "removed"' in out or '"state":"removed"' in out
                await until(lambda: set(handled) == set(sent))
            assert [each.name for each in await admin.brokers.all()] == ["broker-a-0"]
        await until(lambda: set(two.children()) == {"broker-a-0"})
        assert (data / "drained" / GONE / "commitlog").is_dir()
        assert not (data / GONE).exists()

    with serving(tmp_path, "--brokers", "1") as one:
        assert set(one.addresses) == {"broker-a-0"}
        async with Producer(one.name_server) as producer:
            await producer.send("orders", b"after")


async def test_killed_between_roster_and_move_the_next_serve_finishes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--brokers", "2") as two:
        drained = await asyncio.create_subprocess_exec(*command(two), stdout=subprocess.DEVNULL)
        await until(lambda: (known := roster.load(data)) and known.leaving)
        drained.kill()
        await drained.wait()
        await until(lambda: set(two.children()) == {"broker-a-0"})
        assert (data / GONE / "commitlog").is_dir()

    with serving(tmp_path, "--brokers", "1") as one:
        assert set(one.addresses) == {"broker-a-0"}
        assert "broker-a-1 was drained: its files are in" in one.log
    assert (data / "drained" / GONE / "commitlog").is_dir()
    assert not (data / GONE).exists()


def _state(data: Path) -> MemberState | None:
    known = roster.load(data)
    member = known.member(GONE) if known is not None else None
    return member.state if member is not None else None
