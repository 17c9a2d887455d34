"""What was taken has room for all that comes later; what has not is brought on all the same."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import put, sent
from tests.broker.support.transacting import HalfSent, TransactingParts

from rocketpipe.broker.features.timers.timers import Timers
from rocketpipe.broker.intake.room import PLAIN_ROOM, Room
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.flags import Transaction
from rocketpipe.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.record.batch import encode_batch
from rocketpipe.record.codec import RecordView
from rocketpipe.record.layout import MAX_PROPERTIES_BYTES, SEAL_BYTES
from rocketpipe.store.log.puts import Put
from rocketpipe.testing.clock import ManualClock

COMMIT = Transaction.COMMITTED
TOPIC, GROUP = "t" * 127, "g" * 120
DEAD = f"%DLQ%{GROUP}"
#: The longest that the store takes of a message on its own.
BRIM = MAX_PROPERTIES_BYTES - SEAL_BYTES
STAMP = b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"


class LivingParts(TransactingParts):
    """Everything through which a message may go."""

    def __init__(self, root: Path, clock: ManualClock, **changes: Any) -> None:
        super().__init__(root, clock, **changes)
        self.timers = Timers(self.store, self.intake, clock)

    def shown(self, topic: str) -> list[RecordView]:
        return [each for queue in range(4) for each in self.stored(topic, queue)]

    async def pass_by(self, ms: int) -> None:
        await self.clock.advance(ms)
        await self.timers.deliver_due()
        await self.delays.deliver_due()

    async def fail_for_good(self, at: LogOffset, topic: str = "t") -> RecordView:
        """Have a consumer fail with a message until it is a dead letter, which this gives."""
        for _ in range(20):
            back = SendMessageBack(offset=at, group=GROUP, delay_level=1, origin_topic=topic)
            await self.ask(back)
            if found := self.shown(DEAD):
                return found[-1]
            await self.pass_by(1000)
            at = self.shown(f"%RETRY%{GROUP}")[-1].log_offset
        raise AssertionError("it never became a dead letter")


Open = Callable[..., LivingParts]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    clock = ManualClock(1_700_000_000_000)
    last: list[LivingParts] = []

    def open_parts(**changes: Any) -> LivingParts:
        if last:
            last[-1].abandon()
        last.append(LivingParts(tmp_path, clock, **changes))
        return last[-1]

    yield open_parts
    last[-1].abandon()


def long_text(size: int, *more: str) -> str:
    """Properties of so many bytes, the long one among them."""
    rest = "UNIQ_KEY\x01K\x02" + "".join(f"{each}\x02" for each in more)
    return rest + "long\x01" + "x" * (size - len(rest) - len("long\x01\x02")) + "\x02"


async def longest(send: Callable[[int], Any]) -> Any:
    """What the longest send that is taken is answered with."""
    low, high, answer = 20_000, MAX_PROPERTIES_BYTES + 1, None
    refused: RequestRejected | None = None
    while high - low > 1:
        size = (low + high) // 2
        try:
            answer = await send(size)
            low = size
        except RequestRejected as error:
            refused, high = error, size
    assert answer is not None
    assert refused is not None
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert "a room of" in refused.remark
    return answer


@pytest.mark.parametrize(
    "asks",
    [
        (),
        ("DELAY\x011",),
        ("TIMER_DELAY_MS\x011000",),
        ("TIMER_DELAY_SEC\x01259000",),
        ("TRAN_MSG\x01true", f"PGROUP\x01{'p' * 255}"),
        ("TRAN_MSG\x01true", "DELAY\x011"),
        ("TRAN_MSG\x01true", "TIMER_DELAY_MS\x011000"),
    ],
)
async def test_the_longest_that_is_taken_goes_through_all_its_lives(
    opened: Open, asks: tuple[str, ...]
) -> None:
    parts = opened(segment_bytes=4 << 20)
    is_half = "TRAN_MSG\x01true" in asks

    async def send(size: int) -> Any:
        text = long_text(size, *asks)
        group = "p" * 255 if is_half else "p"
        return await parts.ask(sent(TOPIC, b"longest", properties=text, producer_group=group))

    reply = await longest(send)
    if is_half:
        half = HalfSent(reply.queue_offset, int(reply.msg_id[-16:], 16), "K")
        await parts.clock.advance(60_000)
        await parts.checks.ask_all()
        assert parts.asked.places()[-1].offset > half.offset
        await parts.decide(half, COMMIT, producer_group="p" * 255)
    if "TIMER_DELAY_SEC\x01259000" in asks:
        await parts.clock.advance(3_600_000 * 40)
        await parts.timers.roll()
    await parts.pass_by(720_000_000)
    message = parts.shown(TOPIC)[-1]
    assert message.body == b"longest"
    letter = await parts.fail_for_good(message.log_offset, TOPIC)
    assert letter.properties["long"] == message.properties["long"]
    assert letter.properties["RETRY_TOPIC"] == TOPIC
    assert letter.properties["MSG_REGION"] == "DefaultRegion"


async def test_each_message_of_a_batch_leaves_room(opened: Open) -> None:
    parts = opened(segment_bytes=4 << 20)

    async def send(size: int) -> Any:
        entries = [(0, b"first", long_text(size).encode()), (0, b"second", b"UNIQ_KEY\x01K2\x02")]
        return await parts.ask(sent(TOPIC, encode_batch(entries), batch=True, properties=""))

    reply = await longest(send)
    at = LogOffset(int(reply.msg_id.split(",")[0][-16:], 16))
    letter = await parts.fail_for_good(at, TOPIC)
    assert letter.body == b"first"
    assert "long" in letter.properties


async def test_an_ordinary_long_message_is_taken_as_before(opened: Open) -> None:
    parts = opened()
    await parts.ask(sent(properties=long_text(31_600)))
    assert len(parts.stored("t")[0].properties["long"]) > 31_500


async def test_what_fits_no_file_of_the_log_with_its_room_is_refused(opened: Open) -> None:
    parts = opened(segment_bytes=64 << 10)

    async def send(size: int) -> Any:
        return await parts.ask(sent(TOPIC, b"x" * (32_000 + size)))

    reply = await longest(send)
    at = LogOffset(int(reply.msg_id[-16:], 16))
    assert (await parts.fail_for_good(at, TOPIC)).body == parts.stored(TOPIC)[-1].body


async def test_what_a_consumer_sends_to_its_retry_topic_itself_needs_no_more_room(
    opened: Open,
) -> None:
    parts = opened()
    await parts.ask(sent(properties=long_text(BRIM - PLAIN_ROOM - 100)))
    (message,) = parts.stored("t")
    noted = {
        "RETRY_TOPIC": "t",
        "ORIGIN_MESSAGE_ID": message.offset_id,
        "RECONSUME_TIME": "1",
        "MAX_RECONSUME_TIMES": "16",
        "MIN_OFFSET": "0",
        "MAX_OFFSET": "1",
        "CONSUME_START_TIME": "1700000000000",
        "DELAY": "3",
    }
    text = properties.edited(message.raw_properties, noted).decode()
    await parts.ask(sent(f"%RETRY%{GROUP}", properties=text, reconsume_times=1))
    assert len(parts.stored(SCHEDULE_TOPIC, 2)) == 1


# What is in a store that was written without this rule


def brim(*more: str, size: int = BRIM) -> bytes:
    return long_text(size - len(STAMP), *more).encode() + STAMP


async def stored_before(parts: LivingParts, message: Put) -> RecordView:
    await parts.intake.put([message])
    return parts.stored(message.topic, message.queue_id)[-1]


async def test_a_message_without_room_for_a_retry_becomes_a_dead_letter_at_once(
    opened: Open,
) -> None:
    parts = opened()
    message = await stored_before(parts, put(TOPIC, properties=brim()))
    await parts.ask(SendMessageBack(offset=message.log_offset, group=GROUP, delay_level=0))
    (letter,) = parts.shown(DEAD)
    assert letter.properties["long"] == message.properties["long"]


async def test_a_message_short_of_a_few_bytes_is_tried_again_without_what_is_spare(
    opened: Open,
) -> None:
    parts = opened()
    message = await stored_before(parts, put("t", properties=brim(size=BRIM - 340)))
    letter = await parts.fail_for_good(message.log_offset)
    assert letter.properties["long"] == message.properties["long"]
    assert letter.properties["RETRY_TOPIC"] == "t"
    assert letter.reconsume_times == 17


async def test_timed_messages_without_room_are_delivered(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    parts = opened()
    asked = "TIMER_DELAY_MS\x011000"
    for spare in range(0, 60, 6):
        waits = parts.deferral.parked(put(properties=brim(asked, size=32_000)))
        text = properties.edited(waits.properties, {"UNIQ_KEY": f"K{spare}"}) + b"z\x01"
        text += b"y" * (BRIM - spare - len(text) - 1) + b"\x02"
        await parts.intake.put([waits._replace(properties=text)])
    await parts.pass_by(1000)
    assert len(parts.stored("t")) == 10
    for _ in range(2):
        parts = opened()
        await parts.pass_by(700_000)
        assert len(parts.stored("t")) == 10
    assert "cannot be stored" not in caplog.text


@pytest.mark.parametrize("fill", [b"y", b""])
async def test_a_timed_message_of_many_short_properties_is_delivered_once(
    opened: Open, fill: bytes
) -> None:
    parts = opened()
    asked = b"UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x011000\x02"
    waits = parts.deferral.parked(put(properties=asked))
    text = waits.properties
    size = 6 + len(fill)
    text += b"y\x01" + b"y" * ((BRIM - len(text) - 3) % size) + b"\x02"
    text += b"".join(b"%04d\x01%b\x02" % (n, fill) for n in range((BRIM - len(text)) // size))
    await parts.intake.put([waits._replace(properties=text)])
    await parts.pass_by(1000)
    (message,) = parts.stored("t")
    assert message.properties.get("2000", "") == fill.decode(), "no more goes than has to"
    assert len(parts.store.derived.timer) == 0
    parts = opened()
    await parts.pass_by(700_000)
    assert len(parts.stored("t")) == 1


async def test_half_messages_without_room_are_asked_about_and_committed(opened: Open) -> None:
    parts = opened()
    await parts.half(b"before")
    asks = ("TRAN_MSG\x01true", "PGROUP\x01p", "REAL_TOPIC\x01t", "REAL_QID\x012")
    long = await stored_before(
        parts, put(HALF_TOPIC, properties=brim(*asks), born_ms=parts.clock.now_ms())
    )
    await parts.half(b"behind")
    for rounds in range(2):
        await parts.clock.advance(30_000)
        await parts.checks.ask_all()
        assert len(parts.asked.places()) == 3, rounds
    await parts.decide(HalfSent(long.queue_offset, long.log_offset, "K"), COMMIT)
    assert parts.bodies() == [b"body"]
    assert "long" in parts.stored("t", 2)[0].properties
    parts = opened()
    assert len(parts.waiting) == 2


async def test_a_half_message_without_any_room_is_given_up_in_the_end(opened: Open) -> None:
    parts = opened()
    asks = ("TRAN_MSG\x01true", "PGROUP\x01p", "REAL_TOPIC\x01t", "REAL_QID\x012")
    text = long_text(BRIM, *asks).encode()
    await stored_before(parts, put(HALF_TOPIC, properties=text, born_ms=parts.clock.now_ms()))
    await parts.half(b"behind")
    for _ in range(parts.config.transaction_check_max):
        await parts.clock.advance(60_000)
        await parts.checks.ask_all()
        assert len(parts.asked.places()) == 2
    await parts.clock.advance(60_000)
    await parts.checks.ask_all()
    assert [each.body for each in parts.stored(CHECK_MAX_TIME_TOPIC)] == [b"body", b"behind"]
    parts = opened()
    assert len(parts.waiting) == 0


async def test_delayed_messages_of_a_store_without_checksums_are_delivered(opened: Open) -> None:
    parts = opened(checksum=False)
    asks = ("DELAY\x011", "REAL_TOPIC\x01t", "REAL_QID\x010")
    text = brim(*asks, size=MAX_PROPERTIES_BYTES)
    await parts.intake.put([put(SCHEDULE_TOPIC, properties=text)])
    await parts.delays.deliver_due()
    parts = opened(checksum=True)
    await parts.pass_by(1000)
    (message,) = parts.stored("t")
    assert "long" in message.properties
    parts = opened(checksum=True)
    await parts.pass_by(1000)
    assert len(parts.stored("t")) == 1


async def test_a_delayed_message_as_long_as_a_file_of_the_log_is_delivered(opened: Open) -> None:
    parts = opened(segment_bytes=16 << 10)
    asks = f"DELAY\x011\x02REAL_TOPIC\x01{TOPIC}\x02REAL_QID\x010\x02".encode()
    around = 91 + len(SCHEDULE_TOPIC) + len(asks) + SEAL_BYTES + 8
    # Its topic's name is a hundred bytes longer than the one it waits in.
    body = b"x" * ((16 << 10) - around)
    await parts.intake.put([put(SCHEDULE_TOPIC, body=body, properties=asks)])
    await parts.pass_by(1000)
    assert [each.body for each in parts.stored(TOPIC)] == [body]


@pytest.mark.parametrize("kind", ["DELAY\x011\x02", "TIMER_OUT_MS\x011700000000000\x02"])
async def test_what_cannot_be_stored_where_it_belongs_is_put_off_and_holds_up_nobody(
    opened: Open, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    parts = opened()
    topic = SCHEDULE_TOPIC if "DELAY" in kind else TIMER_TOPIC
    asks = f"{kind}UNIQ_KEY\x01%s\x02REAL_TOPIC\x01t\x02REAL_QID\x01%d\x02"
    for key, queue_id in (("a", 0), ("b", 99_999_999_999), ("c", 0)):
        text = (asks % (key, queue_id)).encode()
        await parts.intake.put([put(topic, body=key.encode(), properties=text)])
    await parts.pass_by(1000)
    assert [each.body for each in parts.stored("t")] == [b"a", b"c"]
    assert caplog.text.count("cannot be stored, and is put off") == 1
    await parts.pass_by(7_200_000)
    assert caplog.text.count("cannot be stored, and is put off") == 2


# The rule itself


def test_what_is_left_out_is_said_and_no_more_than_has_to_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = Room(1 << 20)
    message = put(properties=brim(size=MAX_PROPERTIES_BYTES))
    with caplog.at_level(logging.WARNING):
        fitted = room.fitted(message)
    assert fitted is not None
    said = properties.decode_bytes(fitted.properties)
    assert "CLUSTER" not in said
    assert said["MSG_REGION"] == "DefaultRegion"
    assert "left_out=CLUSTER" in caplog.text


def test_what_fits_stays_as_it_is() -> None:
    room = Room(1 << 20)
    message = put(properties=brim(size=BRIM - 1))
    assert room.fitted(message) is message
    assert room.squeezed(message) is message
    assert room.fitted(put(properties=long_text(BRIM).encode()), grouped=True) is None


def test_the_last_place_takes_a_message_without_its_longest_property() -> None:
    room = Room(1 << 20)
    message = put(properties=long_text(MAX_PROPERTIES_BYTES, "short\x01s").encode())
    squeezed = room.squeezed(message)
    assert properties.decode_bytes(squeezed.properties) == {"UNIQ_KEY": "K", "short": "s"}


def test_what_the_store_wrote_into_a_message_takes_no_room() -> None:
    room = Room(1 << 20)
    text = long_text(BRIM - 1).encode() + b"__CRC32#\x010000000000\x02"
    message = put(properties=text)
    assert room.fitted(message) is message
