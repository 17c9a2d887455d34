"""What the store says becomes what producers know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.support.sending_parts import SendingParts, put

from rocketpipe.errors import PropertiesError, RequestRejected, StoreError
from rocketpipe.model.ids import OffsetId
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreFull
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[SendingParts]:
    parts = SendingParts(tmp_path, ManualClock())
    yield parts
    parts.abandon()


@pytest.fixture
async def synced() -> AsyncIterator[tuple[SendingParts, SimDisk]]:
    disk = SimDisk()
    parts = SendingParts(Path("/store"), ManualClock(), disk=disk, flush=FlushMode.SYNC)
    yield parts, disk
    parts.abandon()


async def test_messages_are_stored_together_and_show(parts: SendingParts) -> None:
    stored = await parts.intake.take([put(body=b"a"), put(body=b"b")], wait=True)
    assert (stored.code, stored.first_offset) == (ResponseCode.SUCCESS, 0)
    shown = parts.stored("t")
    assert [message.body for message in shown] == [b"a", b"b"]
    ids = parts.intake.ids(stored).split(",")
    assert [OffsetId.parse(each).log_offset for each in ids] == [
        message.log_offset for message in shown
    ]
    assert ids == [message.offset_id for message in shown]


async def test_stored_and_not_synced_in_time_is_an_answer(
    synced: tuple[SendingParts, SimDisk],
) -> None:
    parts, _ = synced
    waiting = asyncio.create_task(parts.intake.take([put()], wait=True))
    await parts.clock.advance(0)
    await parts.clock.advance(parts.store.config.flush_timeout_ms)
    assert (await waiting).code == ResponseCode.FLUSH_DISK_TIMEOUT


async def test_who_does_not_wait_is_answered_at_once(synced: tuple[SendingParts, SimDisk]) -> None:
    parts, _ = synced
    assert (await parts.intake.take([put()], wait=False)).code == ResponseCode.SUCCESS
    assert parts.stored("t") == []


async def test_a_sync_that_fails_is_not_available(synced: tuple[SendingParts, SimDisk]) -> None:
    parts, disk = synced
    waiting = asyncio.create_task(parts.intake.take([put()], wait=True))
    await asyncio.sleep(0)
    disk.fail(at=1, only=("sync",))
    parts.store.flush()
    with pytest.raises(RequestRejected, match="Input/output error") as refused:
        await waiting
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    with pytest.raises(RequestRejected, match="has failed and takes nothing") as refused:
        parts.intake.admit()
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("bad", "remark"),
    [
        (put(body=bytes(2 << 20)), "segments hold"),
        (put(properties=b"a\x01" + b"x" * 32_750), "leave no room"),
        (put(topic="../x"), "topic"),
        (put(flag=1 << 40), "does not fit its field"),
    ],
)
async def test_a_message_that_cannot_be_one_is_illegal_and_none_is_stored(
    parts: SendingParts, bad: object, remark: str
) -> None:
    with pytest.raises(RequestRejected, match=remark) as refused:
        await parts.intake.take([put(), bad], wait=True)  # type: ignore[list-item]
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert parts.stored("t") == []


async def test_a_store_without_room_says_so_and_takes_the_next(
    parts: SendingParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(groups: object) -> None:
        raise StoreFull(Path("log"), 10, "disk full")

    with monkeypatch.context() as patch:
        patch.setattr(parts.store, "append", refuse)
        with pytest.raises(RequestRejected, match="service not available now: no room") as refused:
            await parts.intake.take([put()], wait=True)
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    parts.intake.admit()
    assert (await parts.intake.take([put()], wait=True)).code == ResponseCode.SUCCESS


async def test_what_the_broker_stores_itself_fails_with_the_stores_own_words(
    parts: SendingParts,
) -> None:
    end = await parts.intake.put([put(), put("u")])
    assert end == parts.store.positions.written
    assert len(parts.stored("t")) == len(parts.stored("u")) == 1
    with pytest.raises(PropertiesError):
        await parts.intake.put([put(properties=b"a\x01" + b"x" * 32_750)])
    parts.store.close()
    with pytest.raises(StoreError):
        await parts.intake.put([put()])
