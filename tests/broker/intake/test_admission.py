"""A broker that cannot keep up says so early, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.leader_parts import fixed, leading
from tests.broker.support.scripted_follower import following
from tests.broker.support.sending_parts import SendingParts, put
from tests.waiting import until

from rocketpipe.broker.intake.admission import Admission, AdmissionLimits
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.replication.standing import Standing
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreFull
from rocketpipe.testing.clock import ManualClock

Open = Callable[..., SendingParts]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    parts: list[SendingParts] = []

    def open_parts(limits: AdmissionLimits | None = None, **changes: Any) -> SendingParts:
        parts.append(SendingParts(tmp_path, ManualClock(), limits=limits, **changes))
        return parts[-1]

    yield open_parts
    parts[-1].abandon()


async def test_a_quiet_broker_takes_everything(opened: Open) -> None:
    assert opened().admission.refusal() is None


async def test_too_many_that_wait_for_the_disk_are_enough(opened: Open) -> None:
    parts = opened(AdmissionLimits(waiting_sends=2), flush=FlushMode.SYNC)
    waiting = [asyncio.create_task(parts.intake.take([put()], wait=True)) for _ in range(2)]
    await asyncio.sleep(0)
    assert parts.admission.refusal() == (
        ResponseCode.SYSTEM_BUSY,
        "[REJECTREQUEST]system busy, start flow control for a while: 2 sends wait for the disk",
    )
    parts.store.flush()
    await asyncio.wait(waiting)
    assert parts.admission.refusal() is None


async def test_too_many_bytes_that_wait_for_the_disk_are_enough(opened: Open) -> None:
    parts = opened(AdmissionLimits(unsynced_bytes=1000), flush=FlushMode.SYNC)
    await parts.intake.take([put(body=bytes(900))], wait=False)
    code, remark = parts.admission.refusal() or (0, "")
    assert code == ResponseCode.SYSTEM_BUSY
    assert "bytes wait for the disk" in remark
    parts.store.flush()
    assert parts.admission.refusal() is None


async def test_where_nobody_waits_for_the_disk_unsynced_bytes_do_not_matter(opened: Open) -> None:
    parts = opened(AdmissionLimits(unsynced_bytes=1, waiting_sends=0))
    await parts.intake.take([put(body=bytes(900))], wait=True)
    assert parts.admission.refusal() is None


async def test_what_consumers_cannot_see_yet_piles_up_no_further(opened: Open) -> None:
    parts = opened(AdmissionLimits(behind_bytes=1000))
    parts.store.append([[put(body=bytes(1000))]])
    code, remark = parts.admission.refusal() or (0, "")
    assert code == ResponseCode.SYSTEM_BUSY
    assert "not shown to consumers yet" in remark
    parts.visibility.dispatch()
    assert parts.admission.refusal() is None


async def test_a_disk_above_its_watermark_is_named(opened: Open) -> None:
    parts = opened()
    parts.store.health.watermark(StoreFull(Path("disk"), 1, "91 percent are used"))
    code, remark = parts.admission.refusal() or (0, "")
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "91 percent are used" in remark
    parts.store.health.watermark(None)
    assert parts.admission.refusal() is None


async def test_a_store_that_had_no_room_is_tried_again(opened: Open) -> None:
    parts = opened()
    parts.store.health.full(StoreFull(Path("disk"), 1, "no space left"))
    assert parts.admission.refusal() is None


async def test_a_closed_store_takes_nothing(opened: Open) -> None:
    parts = opened()
    parts.store.close()
    assert parts.admission.refusal() == (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now: the store is closed",
    )


async def test_before_its_time_a_broker_takes_nothing(opened: Open) -> None:
    start_ms = ManualClock().now_ms() + 1000
    parts = opened(AdmissionLimits(accept_from_ms=start_ms))
    assert parts.admission.refusal() == (
        ResponseCode.SYSTEM_ERROR,
        "broker unable to service, until 2023-11-14 22:13:21 UTC",
    )
    await parts.clock.advance(1000)
    assert parts.admission.refusal() is None

    parts.admission.accept_from(start_ms + 5000)
    assert parts.admission.refusal() is not None
    parts.admission.accept_from(0)
    assert parts.admission.refusal() is None


async def test_who_does_not_lead_takes_nothing(opened: Open) -> None:
    parts = opened()
    parts.visibility.standing.refusal = (14, "the leader is 10.0.0.7:10911")
    admission = Admission(
        parts.store, parts.visibility, parts.clock, standing=parts.visibility.standing
    )
    assert admission.refusal() == (14, "the leader is 10.0.0.7:10911")
    with pytest.raises(RequestRejected, match=r"10\.0\.0\.7"):
        await parts.intake.take([put()], wait=False)
    with pytest.raises(StoreError, match=r"10\.0\.0\.7"):
        await parts.intake.put([put()])
    assert parts.store.positions.written == 0


async def test_what_replicas_do_not_have_piles_up_no_further(tmp_path: Path) -> None:
    limits = AdmissionLimits(waiting_sends=2, unsynced_bytes=2000)
    async with leading(tmp_path, fixed()) as parts, following(parts.address, 2) as slave:
        await parts.heard(1)
        standing = Standing()
        standing.followers = parts.followers
        visibility = Visibility(parts.store, parts.clock, standing)
        admission = Admission(parts.store, visibility, parts.clock, limits, standing)
        assert admission.refusal() is None
        parts.append(body=bytes(2000))
        code, remark = admission.refusal() or (0, "")
        assert code == ResponseCode.SYSTEM_BUSY
        assert "bytes wait for replicas" in remark
        slave.reports = True
        await parts.reached(parts.end)
        assert admission.refusal() is None
        slave.reports = False
        end = parts.append()
        waiting = [asyncio.ensure_future(visibility.settled(end, wait=True)) for _ in range(2)]
        await until(lambda: parts.followers.waiting == 2)
        code, remark = admission.refusal() or (0, "")
        assert code == ResponseCode.SYSTEM_BUSY
        assert "2 sends wait for replicas" in remark
        await until(lambda: slave.end == end)
        slave.report(end)
        assert await asyncio.gather(*waiting) == [0, 0]
        assert admission.refusal() is None
