from __future__ import annotations

import msgspec
import pytest

from rocketpipe.model.body import Body, Int32, Int64


class Sample(Body, frozen=True, kw_only=True):
    queue_id: Int32 = 0
    log_offset: Int64 = 0


def test_keys_are_camel_case() -> None:
    text = msgspec.json.encode(Sample(queue_id=1, log_offset=2))
    assert text == b'{"queueId":1,"logOffset":2}'


@pytest.mark.parametrize("number", [-(1 << 31), (1 << 31) - 1])
def test_the_outermost_ints_of_java_are_read(number: int) -> None:
    assert msgspec.json.decode(b'{"queueId":%d}' % number, type=Sample).queue_id == number


@pytest.mark.parametrize(
    "text",
    [
        b'{"queueId":%d}' % (1 << 31),
        b'{"queueId":%d}' % (-(1 << 31) - 1),
        b'{"logOffset":%d}' % (1 << 63),
        b'{"logOffset":%d}' % (-(1 << 63) - 1),
    ],
)
def test_a_number_that_java_could_not_hold_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Sample)


def test_a_body_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Sample().queue_id = 1  # type: ignore[misc]
