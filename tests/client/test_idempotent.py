from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.stepped_clock import HOUR_MS, SteppedClock
from tests.client.consumer.support.sample_messages import message
from tests.waiting import until

from rocketpipe.client.consumer.outcome import Retry
from rocketpipe.client.idempotent import PRUNE_ROWS, Idempotent, LedgerFailed, Sql, SqliteLedger
from rocketpipe.testing.clock import ManualClock

BILLS = "create table if not exists bills (id text)"


def bills(path: Path) -> list[str]:
    with sqlite3.connect(path) as database:
        rows = [row[0] for row in database.execute("select id from bills order by id")]
    database.close()
    return rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "ledger.db"
    with sqlite3.connect(found) as database:
        database.execute(BILLS)
    database.close()
    return found


async def test_a_redelivery_is_harmless(path: Path) -> None:
    runs = []
    async with SqliteLedger(path) as ledger:

        @Idempotent(ledger, name="billing")
        async def bill(one: Any) -> Sql:
            runs.append(one.queue_offset)
            return Sql("insert into bills values (?)", [one.message_id])

        for _ in range(3):
            assert await bill(message(1)) is None
        await bill(message(2))
        assert runs == [1, 2]
        assert bills(path) == sorted([message(1).message_id, message(2).message_id])


async def test_effect_and_key_are_written_both_or_neither(path: Path) -> None:
    async with SqliteLedger(path) as ledger:

        @Idempotent(ledger, name="billing")
        def bill(one: Any) -> list[Sql]:
            second = (
                "insert into bills values ('b')" if mended else "insert into nothing values (1)"
            )
            return [Sql("insert into bills values ('a')"), Sql(second)]

        mended = False
        with pytest.raises(LedgerFailed, match="nothing"):
            await bill(message(1))
        assert bills(path) == []
        assert not await ledger.has("billing", message(1).message_id)
        mended = True
        await bill(message(1))
        assert bills(path) == ["a", "b"]


async def test_a_function_of_the_message_may_be_the_key(path: Path) -> None:
    runs = []
    async with SqliteLedger(path) as ledger:
        once = Idempotent(ledger, name="billing", key=lambda one: one.body.decode())
        handle = once(lambda one: runs.append(one.queue_offset))
        await handle(message(1, body=b"order 7"))
        await handle(message(2, body=b"order 7"))
        await handle(message(3, body=b"order 8"))
        assert runs == [1, 3]


async def test_two_deliveries_at_a_time_run_one_handler(path: Path) -> None:
    runs = []
    gate = asyncio.Event()
    async with SqliteLedger(path) as ledger:
        once = Idempotent(ledger, name="billing")

        @once
        async def slow(one: Any) -> None:
            runs.append(one.queue_offset)
            await gate.wait()

        tasks = [asyncio.create_task(slow(message(1))) for _ in range(5)]
        await until(lambda: runs)
        gate.set()
        await asyncio.gather(*tasks)
        assert runs == [1]
        assert once._under_way == {}


async def test_of_two_processes_the_quicker_one_counts(path: Path) -> None:
    async with SqliteLedger(path) as ours, SqliteLedger(path) as theirs:
        add = Sql("insert into bills values ('a')")
        assert await theirs.record("billing", "k", add)
        assert not await ours.record("billing", "k", add)
        assert bills(path) == ["a"]


async def test_handlers_that_share_a_ledger_are_kept_apart_by_name(path: Path) -> None:
    runs = []
    async with SqliteLedger(path) as ledger:
        for name in ("billing", "mailing"):
            await Idempotent(ledger, name=name)(lambda one, name=name: runs.append(name))(
                message(1)
            )
    assert runs == ["billing", "mailing"]


async def test_text_and_bytes_are_remembered_with_the_key(path: Path) -> None:
    async with SqliteLedger(path) as ledger:
        key = message(1).message_id
        await Idempotent(ledger, name="a")(lambda one: "paid")(message(1))
        await Idempotent(ledger, name="b")(lambda one: b"\x00")(message(1))
        assert await ledger.effect("a", key) == b"paid"
        assert await ledger.effect("b", key) == b"\x00"
        assert await ledger.effect("c", key) is None


async def test_a_failure_or_a_wish_for_another_attempt_records_nothing(path: Path) -> None:
    said: list[Any] = [False, Retry(delay_level=4), KeyError("id"), True]

    async def handle(one: Any) -> Any:
        word = said.pop(0)
        if isinstance(word, KeyError):
            raise word
        return word

    async with SqliteLedger(path) as ledger:
        once = Idempotent(ledger, name="billing")(handle)
        assert await once(message(1)) is False
        wish = await once(message(1))
        assert isinstance(wish, Retry)
        assert wish.delay_level == 4
        with pytest.raises(KeyError):
            await once(message(1))
        assert await once(message(1)) is None
        assert await once(message(1)) is None
        assert said == []


async def test_keys_are_forgotten_when_no_message_can_come_again(path: Path) -> None:
    clock = ManualClock()
    async with SqliteLedger(path, keep_ms=100_000, clock=clock) as ledger:
        assert await ledger.record("billing", "old", None)
        await clock.advance(90_000)
        assert await ledger.record("billing", "young", None)
        assert await ledger.has("billing", "old")
        await clock.advance(60_000)
        assert await ledger.record("billing", "new", None)
        assert not await ledger.has("billing", "old")
        assert await ledger.has("billing", "young")


async def test_a_clock_that_is_set_forward_makes_no_key_older(path: Path) -> None:
    clock = SteppedClock()
    async with SqliteLedger(path, keep_ms=100_000, clock=clock) as ledger:
        assert await ledger.record("billing", "before", None)
        clock.step(24 * HOUR_MS)
        assert await ledger.record("billing", "ahead", None)
        assert await ledger.has("billing", "before")
        clock.step(-48 * HOUR_MS)
        assert await ledger.record("billing", "behind", None)
        clock.step(24 * HOUR_MS)
        for number in range(3):
            await clock.advance(49_000)
            assert await ledger.has("billing", "behind")
            assert await ledger.record("billing", f"after {number}", None)
        # It is as old as that by now, whatever the clock says.
        await clock.advance(49_000)
        assert await ledger.record("billing", "last", None)
        assert not await ledger.has("billing", "before")
        assert not await ledger.has("billing", "behind")


async def test_what_cannot_be_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="keep_ms"):
        SqliteLedger(path, keep_ms=0)
    async with SqliteLedger(path) as ledger:
        with pytest.raises(ValueError, match="name"):
            Idempotent(ledger, name="")
        with pytest.raises(TypeError, match="Sql"):
            await ledger.record("billing", "k", 7)  # type: ignore[arg-type]
        once = Idempotent(ledger, name="billing", key=lambda one: "")(print)
        with pytest.raises(ValueError, match="key"):
            await once(message(1))
        with pytest.raises(TypeError, match="batch"):
            await once([message(1)])
    broken = SqliteLedger(path.parent)
    with pytest.raises(LedgerFailed):
        await broken.has("billing", "k")
    await broken.close()


async def test_a_closed_ledger_opens_again(path: Path) -> None:
    ledger = SqliteLedger(path)
    assert await ledger.record("billing", "k", None)
    await ledger.close()
    await ledger.close()
    assert await ledger.has("billing", "k")
    await ledger.close()


WORK = """
import asyncio, sys
from rocketpipe.client.idempotent import Idempotent, Sql, SqliteLedger
from tests.client.consumer.support.sample_messages import message
from tests.waiting import until

async def main():
    ledger = SqliteLedger(sys.argv[1])

    @Idempotent(ledger, name="billing")
    async def bill(one):
        return [Sql("insert into bills values (?)", (str(one.queue_offset),))] * 2

    for offset in range(10_000):
        await bill(message(offset))
        print(offset, flush=True)

asyncio.run(main())
"""


def test_kill_9_at_any_moment_leaves_each_effect_once_and_whole(path: Path) -> None:
    for count in (3, 7, 12, 20):
        # Each life begins at the start again, as a redelivery of everything would.
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORK), str(path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        ) as child:
            assert child.stdout is not None
            for _ in range(count):
                assert child.stdout.readline()
            child.send_signal(signal.SIGKILL)
    found = sorted(map(int, bills(path)))
    assert len(found) >= 2 * 20
    assert found == sorted(list(range(len(found) // 2)) * 2), "two rows for each, none torn"


async def test_old_keys_go_faster_than_new_ones_come_however_many_do(path: Path) -> None:
    clock = ManualClock()
    async with SqliteLedger(path, keep_ms=100_000, clock=clock) as ledger:
        await ledger.record("billing", "first", None)
        with sqlite3.connect(path) as database:  # what came in a busy minute
            database.executemany(
                "insert into rocketpipe_done values ('billing', ?, null, ?)",
                ((f"old {number}", clock.now_ms()) for number in range(12_000)),
            )
        database.close()
        await clock.advance(100_001)
        for number in range(12_001 // PRUNE_ROWS + 1):
            await ledger.record("billing", f"new {number}", None)
        assert not await ledger.has("billing", "first")
        with sqlite3.connect(path) as database:
            ((kept,),) = database.execute("select count(*) from rocketpipe_done")
        database.close()
        assert kept == 12_001 // PRUNE_ROWS + 1


FORKED = """
import asyncio, os, signal, sys
from rocketpipe.client.idempotent import SqliteLedger

ledger = SqliteLedger(sys.argv[1])
asyncio.run(ledger.record("billing", "parent", None))
if os.fork() == 0:
    signal.alarm(20)
    had = asyncio.run(ledger.has("billing", "parent"))
    told = asyncio.run(ledger.record("billing", "child", None))
    asyncio.run(ledger.close())
    os._exit(0 if had and told else 1)
status = os.waitstatus_to_exitcode(os.wait()[1])
print(status, asyncio.run(ledger.record("billing", "child", None)))
asyncio.run(ledger.close())
"""


def test_a_forked_child_works_with_a_thread_and_a_connection_of_its_own(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["0", "False"], done.stderr
