"""A receipt is good until its time is over, and no longer; one that was made up never is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.broker.support.pop_parts import INVISIBLE_MS, PopParts, bodies, seen

from rocketpipe.broker.features.popping.acks import MAX_INVISIBLE_MS, Receipt
from rocketpipe.broker.features.popping.in_flight import Flight
from rocketpipe.broker.intake.intake import Stored
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.log.puts import Put
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[PopParts]:
    made = PopParts(tmp_path, ManualClock())
    yield made
    made.abandon()


async def test_what_was_acknowledged_never_comes_again(parts: PopParts) -> None:
    await parts.send(b"0", b"1", b"2")
    got = await parts.pop()
    await parts.acks.acknowledge("t", "g", got[0].handle, [each.offset for each in got[:2]])
    await parts.ack(got[0])  # once more, as after an answer that was lost
    await parts.pass_time(INVISIBLE_MS)
    assert bodies(await parts.pop()) == [b"2"]
    assert len(parts.revive_log.flights) == 1


async def test_a_pop_that_was_acknowledged_to_the_last_can_be_acknowledged_again(
    parts: PopParts,
) -> None:
    await parts.send(b"0")
    (got,) = await parts.pop()
    await parts.ack(got)
    await parts.ack(got)
    assert len(parts.revive_log.flights) == 0


async def test_what_is_acknowledged_of_several_pops_is_written_at_once(
    parts: PopParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parts.send(*(b"%d" % n for n in range(6)))
    got = [(await parts.pop(count=1))[0] for _ in range(6)]
    forged = replace(got[2].handle, pop_ms=5)
    handles = [got[0].handle, got[1].handle, forged, got[3].handle, got[4].handle]
    receipts = [
        Receipt("t", "g", handle, [each.offset])
        for handle, each in zip(handles, got[:5], strict=True)
    ]
    writes: list[int] = []
    take = parts.intake.take

    async def counted(puts: Sequence[Put], **how: bool) -> Stored:
        writes.append(len(puts))
        return await take(puts, **how)

    with monkeypatch.context() as patch:
        patch.setattr(parts.intake, "take", counted)
        with pytest.raises(RequestRejected, match="its time is over"):
            await parts.acks.acknowledge_all(receipts)
    assert writes == [4]
    await parts.pass_time(INVISIBLE_MS)
    assert sorted(bodies(await parts.pop())) == sorted([got[2].body, got[5].body])


async def test_of_several_that_are_refused_the_one_is_told_that_may_be_asked_again(
    parts: PopParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parts.send(b"0", b"1")
    first, second = [(await parts.pop(count=1))[0] for _ in range(2)]
    forged = replace(first.handle, pop_ms=5)
    receipts = [
        Receipt("t", "g", forged, [first.offset]),
        Receipt("t", "g", second.handle, [second.offset]),
    ]

    async def refuse(puts: Sequence[Put], **_: bool) -> Stored:
        raise RequestRejected(ResponseCode.SYSTEM_BUSY, "full")

    with monkeypatch.context() as patch:
        patch.setattr(parts.intake, "take", refuse)
        with pytest.raises(RequestRejected, match="full"):
            await parts.acks.acknowledge_all(receipts)
    await parts.pass_time(INVISIBLE_MS)
    assert sorted(bodies(await parts.pop())) == [b"0", b"1"]


@pytest.mark.parametrize(
    "forged",
    [{"pop_ms": 5}, {"start_offset": 1}, {"queue_id": 1}, {"broker": "other"}],
    ids=["time", "start", "queue", "broker"],
)
async def test_a_receipt_that_nobody_was_given_is_refused(
    parts: PopParts, forged: dict[str, object]
) -> None:
    await parts.send(b"0", b"1")
    got, _ = await parts.pop()
    handle = replace(got.handle, **forged)  # type: ignore[arg-type]
    with pytest.raises(RequestRejected) as refused:
        await parts.acks.acknowledge("t", "g", handle, [got.offset])
    assert refused.value.code == ResponseCode.NO_MESSAGE
    with pytest.raises(RequestRejected):
        await parts.acks.acknowledge("t", "g", got.handle, [QueueOffset(7)])
    with pytest.raises(RequestRejected):
        await parts.acks.acknowledge("t", "h", got.handle, [got.offset])


async def test_a_receipt_whose_time_is_over_is_refused(parts: PopParts) -> None:
    await parts.send(b"0")
    (got,) = await parts.pop()
    await parts.pass_time(INVISIBLE_MS)
    for asked in (parts.ack(got), parts.acks.hide("t", "g", got.handle, got.offset, 1000)):
        with pytest.raises(RequestRejected, match="its time is over") as refused:
            await asked
        assert refused.value.code == ResponseCode.NO_MESSAGE
    assert bodies(await parts.pop()) == [b"0"]


async def test_a_message_is_hidden_for_longer_and_has_another_receipt(parts: PopParts) -> None:
    await parts.send(b"0", b"1")
    got, other = await parts.pop()
    await parts.clock.advance(1000)
    pop_ms, invisible_ms = await parts.acks.hide("t", "g", got.handle, got.offset, 60_000)
    assert pop_ms + invisible_ms == parts.clock.now_ms() + 60_000
    with pytest.raises(RequestRejected):
        await parts.acks.hide("t", "g", got.handle, got.offset, 1)
    await parts.pass_time(INVISIBLE_MS)
    assert bodies(await parts.pop()) == [other.body]
    renewed = replace(got.handle, start_offset=got.offset, pop_ms=pop_ms, invisible_ms=invisible_ms)
    await parts.ack(replace(got, handle=renewed))
    await parts.pass_time(60_000)
    assert [each.body for each in await parts.pop()] == [other.body]


async def test_a_message_is_shown_again_at_once(parts: PopParts) -> None:
    await parts.send(b"0")
    (got,) = await parts.pop()
    await parts.acks.hide("t", "g", got.handle, got.offset, 0)
    await parts.pass_time(1)
    (again,) = await parts.pop()
    assert (again.body, again.tries) == (b"0", 1)


@pytest.mark.parametrize("invisible_ms", [-1, MAX_INVISIBLE_MS + 1])
async def test_no_message_is_hidden_for_ever(parts: PopParts, invisible_ms: int) -> None:
    await parts.send(b"0")
    (got,) = await parts.pop()
    with pytest.raises(RequestRejected, match="invisibleTime") as refused:
        await parts.acks.hide("t", "g", got.handle, got.offset, invisible_ms)
    assert refused.value.code == ResponseCode.INVALID_PARAMETER


async def test_in_order_an_acknowledgement_frees_the_queue(parts: PopParts) -> None:
    await parts.send(b"0", b"1", b"2")
    got = seen(await parts.popped(ordered=True, count=2), "t", "g")
    await parts.ack(got[1])
    assert parts.freed == []
    assert parts.revive_log.places.next("g", "t", 0) == 0
    await parts.ack(got[0])
    assert parts.freed == [("t", "g", 0)]
    assert parts.revive_log.places.next("g", "t", 0) == 2
    await parts.ack(got[0])  # it is behind by now
    third = seen(await parts.popped(ordered=True), "t", "g")
    assert bodies(third) == [b"2"]
    wrong = replace(third[0].handle, pop_ms=1)
    with pytest.raises(RequestRejected, match="not valid"):
        await parts.acks.acknowledge("t", "g", wrong, [third[0].offset])
    with pytest.raises(RequestRejected, match="offset is illegal"):
        await parts.acks.acknowledge("t", "g", third[0].handle, [QueueOffset(9)])


async def test_in_order_a_message_shows_again_when_it_is_told_to(parts: PopParts) -> None:
    await parts.send(b"0", b"1")
    got = seen(await parts.popped(ordered=True, count=1), "t", "g")
    now_ms = parts.clock.now_ms()
    pop_ms, invisible_ms = await parts.acks.hide("t", "g", got[0].handle, got[0].offset, 50)
    assert pop_ms + invisible_ms == now_ms + 50
    await parts.clock.advance(49)
    assert (await parts.popped(ordered=True)).count == 0
    await parts.clock.advance(1)
    assert bodies(seen(await parts.popped(ordered=True), "t", "g")) == [b"0", b"1"]


async def test_what_shows_again_is_acknowledged_too_late_and_the_rest_of_its_pop_is_not(
    parts: PopParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parts.send(b"first", b"second")
    first, second = await parts.pop()
    assert first.handle.start_offset == second.handle.start_offset, "they are of one pop"
    revived = parts.revive_log.revived

    async def acknowledged_meanwhile(flight: Flight, offset: QueueOffset, copy: Put | None) -> None:
        await revived(flight, offset, copy)
        if offset == first.offset:
            with pytest.raises(RequestRejected) as refused:
                await parts.acks.acknowledge(
                    first.topic, "g", first.handle, [first.offset, second.offset]
                )
            assert refused.value.code == ResponseCode.NO_MESSAGE

    monkeypatch.setattr(parts.revive_log, "revived", acknowledged_meanwhile)
    await parts.pass_time(INVISIBLE_MS)
    await parts.pass_time(INVISIBLE_MS)
    assert [got.body for got in await parts.pop()] == [b"first"]
