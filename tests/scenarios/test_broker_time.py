"""Minutes and days of a broker's life, on a clock that is turned by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support.asking import joining
from tests.scenarios.support.consuming import quick_servers
from tests.scenarios.support.raw_broker import driven_broker
from tests.scenarios.support.sending_wire import sent, shown

from rocketpipe.model.group import DELAYS_MS
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.clients import LockBatch, QueueClaim
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.record.codec import RecordView
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario

MINUTE_MS = 60_000
STEP_MS = 10_000
LEVELS = 14
WAITING = 40
#: 10s 30s 1m 2m 3m 4m 5m: the seventh retry comes after 15 minutes and 40 seconds.
LADDER_MS = DELAYS_MS[2:9]


def claim(client_id: str) -> LockBatch:
    queue = MessageQueue(topic="t", broker_name="broker-a", queue_id=0)
    return LockBatch(claim=QueueClaim(consumer_group="g", client_id=client_id, queues=(queue,)))


async def test_retries_locks_and_delay_levels_come_in_their_order(tmp_path: Path) -> None:
    clock = ManualClock()
    start_ms = clock.now_ms()
    async with driven_broker(tmp_path, clock=clock) as driver, Caller() as caller:
        address = driver.address
        await caller.call(address, sent("failing"))
        for level in range(LEVELS, 0, -1):
            text = f"UNIQ_KEY\x01L{level}\x02DELAY\x01{level}"
            await caller.call(address, sent("later", b"%d" % level, properties=text))
        await caller.call(address, joining("g", "first"))
        assert (await caller.call(address, claim("first"))).locked.queues
        (failed,) = await shown(caller, address, "failing", least=1)
        back = SendMessageBack(offset=failed.log_offset, group="g", delay_level=0)
        await caller.call(address, back)
        failed_ms = [clock.now_ms()]
        retries: list[RecordView] = []
        owners: list[tuple[int, bool]] = []
        while clock.now_ms() < start_ms + 16 * MINUTE_MS:
            await clock.advance(STEP_MS)
            if (passed_ms := clock.now_ms() - start_ms) <= 2 * MINUTE_MS:
                await caller.call(address, joining("g", "second"))
                taken = (await caller.call(address, claim("second"))).locked.queues
                owners.append((passed_ms, bool(taken)))
            found = await shown(caller, address, "%RETRY%g")
            for message in found[len(retries) :]:
                retries.append(message)
                again = SendMessageBack(offset=message.log_offset, group="g", delay_level=0)
                await caller.call(address, again)
                failed_ms.append(clock.now_ms())
        later = await shown(caller, address, "later", least=LEVELS)
    waits = [
        message.stored_ms - before for message, before in zip(retries, failed_ms, strict=False)
    ]
    assert tuple(waits) == LADDER_MS
    assert [message.reconsume_times for message in retries] == list(range(1, len(LADDER_MS) + 1))
    assert [message.body for message in later] == [b"%d" % level for level in range(1, LEVELS + 1)]
    assert [message.stored_ms - start_ms for message in later] == list(DELAYS_MS[:LEVELS])
    assert owners == [(at_ms, at_ms > MINUTE_MS) for at_ms in range(STEP_MS, 130_000, STEP_MS)]


async def test_what_fell_due_while_the_broker_was_down_shows_before_old_files_go(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    settings = {
        "segment_bytes": 64 * 1024,
        "reserved_hours": 1,
        "delete_hours": ";".join(map(str, range(24))),
    }
    layout = StoreLayout(tmp_path)

    def log_files() -> list[str]:
        return Disk().names(layout.commit_log)

    async with quick_servers(tmp_path, clock=clock, **settings) as servers, Caller() as caller:
        for number in range(WAITING):
            how = "DELAY\x015" if number % 2 else "TIMER_DELAY_SEC\x0160"
            text = f"UNIQ_KEY\x01{number}\x02{how}"
            await caller.call(servers.broker, sent("later", b"%d" % number, properties=text))
        for _ in range(3):
            await caller.call(servers.broker, sent("others", bytes(40_000)))
    oldest = log_files()[0]
    await clock.advance(7 * 24 * 60 * MINUTE_MS)
    async with quick_servers(tmp_path, clock=clock, **settings) as servers, Caller() as caller:
        found: list[RecordView] = []
        for _ in range(55):
            await clock.advance(1000)
            found = await shown(caller, servers.broker, "later")
        assert {int(message.body) for message in found} == set(range(WAITING))
        assert log_files()[0] == oldest
        # Only that nobody looked was in the way: what is past its time goes now.
        while log_files()[0] == oldest:
            await clock.advance(STEP_MS)
            assert clock.monotonic_ms() < 8 * 24 * 60 * MINUTE_MS
