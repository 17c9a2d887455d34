"""Acknowledgements of one turn are written down together, and answered as one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.pop_parts import BROKER, INVISIBLE_MS, REVIVE, Got, PopParts, bodies

from rocketpipe.broker.features.popping.ack_lane import AckLane, reply_to
from rocketpipe.broker.features.popping.check_points import read_note
from rocketpipe.broker.features.popping.handlers import AckHandlers
from rocketpipe.broker.intake.intake import Stored
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import OUR_VERSION, RequestCode, ResponseCode
from rocketpipe.protocol.command import ONEWAY, RESPONSE, Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.popping import AckMessage, BatchAck, BatchAckMessage, BatchAcks
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.store.log.puts import Put
from rocketpipe.testing.clock import ManualClock


class Kept:
    """What a peer was told."""

    def __init__(self) -> None:
        self._wire = Connection()
        self.writes = 0
        self.told: list[Command] = []

    def set_write_buffer_limits(self, **_: int) -> None: ...

    def get_extra_info(self, _: str) -> None: ...

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.writes += 1
        self.told += self._wire.receive(data)


class Lane:
    def __init__(self, root: Path) -> None:
        self.parts = PopParts(root, ManualClock())
        self.handlers = AckHandlers(self.parts.acks, self.parts.store, self.parts.topic_provider)
        self.lane = AckLane(self.handlers, self.parts.acks)
        self.peer, self.kept = self.connected()

    def connected(self) -> tuple[PeerConnection, Kept]:
        async def nobody(command: Command, peer: PeerConnection) -> Command:
            raise AssertionError(command)

        peer, kept = PeerConnection(nobody, limits=ConnectionLimits()), Kept()
        peer.connection_made(kept)  # type: ignore[arg-type]
        return peer, kept

    def take(
        self, got: Got, opaque: int = 1, peer: PeerConnection | None = None, **changes: Any
    ) -> bool:
        flag = changes.pop("flag", 0)
        fields = {"consumer_group": "g", "topic": "t", "queue_id": got.handle.queue_id}
        own = {"extra_info": str(got.handle), "offset": got.offset, "broker_name": BROKER}
        request = AckMessage(**{**fields, **own, **changes})
        return self.take_frame(encode_frame(to_command(request, opaque, oneway=bool(flag))), peer)

    def take_frame(self, raw: bytes, peer: PeerConnection | None = None) -> bool:
        body = 8 + int.from_bytes(raw[5:8], "big")
        frame = (6, 6 + body, 6 + len(raw))
        return self.lane.take(b"before" + raw + b"behind", frame, peer or self.peer)

    async def end(self) -> None:
        self.lane.end_turn()
        await self.lane.finish()

    def notes(self) -> list[RecordView]:
        found: list[RecordView] = []
        for queue_id in range(8):
            read = self.parts.store.read(REVIVE, queue_id, QueueOffset(0), max_count=100)
            found += view_records(read.records)
        return sorted(found, key=lambda note: note.log_offset)

    async def shown(self) -> list[bytes]:
        await self.parts.pass_time(INVISIBLE_MS + 1)
        return bodies(await self.parts.pop())


@pytest.fixture
async def lane(tmp_path: Path) -> Lane:
    return Lane(tmp_path)


async def test_what_is_acknowledged_in_one_turn_takes_one_note_for_each_pop(lane: Lane) -> None:
    await lane.parts.send(*(b"%d" % n for n in range(10)))
    got = await lane.parts.pop(count=4)
    got += await lane.parts.pop(count=5)
    before = len(lane.notes())
    pops = len({str(each.handle).rpartition(" ")[0] for each in got})
    for opaque, each in enumerate(got):
        assert lane.take(each, opaque)
    assert lane.kept.told == []
    await lane.end()
    assert [answer.opaque for answer in lane.kept.told] == list(range(len(got)))
    assert {(answer.code, answer.flag) for answer in lane.kept.told} == {(0, RESPONSE)}
    assert lane.kept.writes == 1
    notes = lane.notes()[before:]
    assert len(notes) == pops
    acked = [offset for note in map(read_note, notes) if note for offset in note.offsets]
    assert len(acked) == len(got)
    assert await lane.shown() == [b"9"]


async def test_the_answer_is_that_of_the_handlers(lane: Lane) -> None:
    command = Command(code=0, opaque=7, flag=RESPONSE, version=OUR_VERSION)
    assert reply_to(7, None) == encode_frame(command)
    assert reply_to(-7, None) == encode_frame(
        Command(code=0, opaque=-7, flag=RESPONSE, version=OUR_VERSION)
    )


async def test_each_peer_gets_its_own_answers(lane: Lane) -> None:
    await lane.parts.send(b"0", b"1", b"2")
    got = await lane.parts.pop()
    other, kept = lane.connected()
    assert lane.take(got[0], 1)
    assert lane.take(got[1], 1, other)
    assert lane.take(got[2], 2)
    await lane.end()
    assert [answer.opaque for answer in lane.kept.told] == [1, 2]
    assert [answer.opaque for answer in kept.told] == [1]


async def test_to_acknowledge_twice_in_a_turn_is_answered_twice_and_noted_once(lane: Lane) -> None:
    await lane.parts.send(b"0", b"1")
    first, second = await lane.parts.pop()
    before = len(lane.notes())
    assert lane.take(first, 1)
    assert lane.take(first, 2)
    await lane.end()
    assert [answer.code for answer in lane.kept.told] == [0, 0]
    (note,) = map(read_note, lane.notes()[before:])
    assert note is not None
    assert note.offsets == (first.offset,)
    assert await lane.shown() == [second.body]


async def test_what_is_taken_cannot_show_again_before_the_turn_is_over(lane: Lane) -> None:
    await lane.parts.send(b"0")
    (got,) = await lane.parts.pop()
    assert lane.take(got)
    await lane.parts.pass_time(INVISIBLE_MS + 1)
    await lane.end()
    assert [answer.code for answer in lane.kept.told] == [0]
    assert lane.parts.stored("%RETRY%g+t") == []
    assert await lane.shown() == []


async def test_what_is_not_plain_is_for_the_handlers(lane: Lane) -> None:
    await lane.parts.send(b"0", b"1", b"2")
    got, shown, done = await lane.parts.pop()
    text = str(got.handle)
    await lane.parts.ack(done)
    for changes in (
        {"topic": "nowhere"},
        {"consumer_group": "other"},
        {"queue_id": got.handle.queue_id ^ 1},
        {"queue_id": 99},
        {"offset": QueueOffset(got.offset + 1)},
        {"offset": QueueOffset(1 << 40)},
        {"extra_info": "nonsense"},
        {"extra_info": ""},
        {"extra_info": text.rpartition(" ")[0]},
        {"extra_info": text.replace(BROKER, "broker-b")},
        {"extra_info": f"+{text}"},
        {"extra_info": text.rpartition(" ")[0] + " 0" + text.rpartition(" ")[2]},
        {"extra_info": f"{got.handle.start_offset} 1 {text.split(' ', 2)[2]}"},
        {"flag": ONEWAY},
    ):
        assert not lane.take(got, **changes), changes
    raw = encode_frame(Command(code=int(RequestCode.POP_MESSAGE), opaque=1))
    assert not lane.take_frame(raw)
    batch = BatchAckMessage(
        broker_name=BROKER,
        batch=BatchAcks(
            broker_name=BROKER,
            acks=(
                BatchAck(
                    consumer_group="g", topic="t", retry="0", start_offset=got.offset, queue_id=0,
                    revive_queue_id=0, pop_time=0, invisible_time=0, marks=b"\1",
                ),
            ),
        ),
    )  # fmt: skip
    assert not lane.take_frame(encode_frame(to_command(batch, 1)))
    await lane.parts.pass_time(INVISIBLE_MS + 1)
    assert not lane.take(got)
    assert not lane.take(shown)
    await lane.end()
    assert lane.kept.told == []


async def test_messages_popped_in_order_are_for_the_handlers(lane: Lane) -> None:
    await lane.parts.send(b"0", queue_id=0)
    (got,) = await lane.parts.pop(ordered=True, queue_id=0)
    assert not lane.take(got)


async def test_what_comes_again_is_acknowledged_as_well(lane: Lane) -> None:
    await lane.parts.send(b"0")
    await lane.parts.pop()
    await lane.parts.pass_time(INVISIBLE_MS + 1)
    (again,) = await lane.parts.pop()
    assert lane.take(again)
    await lane.end()
    assert [answer.code for answer in lane.kept.told] == [0]
    assert await lane.shown() == []


@pytest.mark.parametrize("error", [RequestRejected(14, "full"), ValueError("a fault")])
async def test_if_they_cannot_be_written_down_everybody_is_told_and_they_show_again(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    await lane.parts.send(b"0", b"1")
    got = await lane.parts.pop()

    async def refuse(puts: Sequence[Put], **_: bool) -> Stored:
        raise error

    for opaque, each in enumerate(got):
        assert lane.take(each, opaque)
    with monkeypatch.context() as patch:
        patch.setattr(lane.parts.intake, "take", refuse)
        await lane.end()
    assert [answer.opaque for answer in lane.kept.told] == [0, 1]
    code = 14 if isinstance(error, RequestRejected) else ResponseCode.SYSTEM_ERROR
    assert {answer.code for answer in lane.kept.told} == {code}
    assert all(answer.remark for answer in lane.kept.told)
    if isinstance(error, RequestRejected):
        assert await lane.shown() == [b"0", b"1"]


async def test_who_closes_waits_for_those_that_are_on_their_way(lane: Lane) -> None:
    await lane.parts.send(b"0")
    (got,) = await lane.parts.pop()
    assert lane.take(got)
    await lane.lane.finish()
    assert [answer.code for answer in lane.kept.told] == [0]
    await asyncio.wait_for(lane.lane.finish(), 5)


async def test_what_was_answered_is_known_after_a_kill(lane: Lane, tmp_path: Path) -> None:
    await lane.parts.send(*(b"%d" % n for n in range(6)))
    got = await lane.parts.pop()
    for opaque, each in enumerate(got[:4]):
        assert lane.take(each, opaque)
    await lane.end()
    lane.parts.store.flush()
    lane.parts.store.close()
    again = PopParts(tmp_path, lane.parts.clock)
    await again.pass_time(INVISIBLE_MS + 1)
    assert bodies(await again.pop()) == sorted(each.body for each in got[4:])
