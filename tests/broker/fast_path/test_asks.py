"""The three numbers in which one pull differs from the next, and what is left of its header."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.twins import (
    WAYS,
    assert_wrong_types_are_refused,
    compiled_functions,
    damaged,
    each_way,
    outcome,
)

from rocketpipe.broker.fast_path.asks import MAX_HEADER_BYTES, read_ask

TWIN = "rocketpipe.broker.fast_path._asks"


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__]):
        yield


def frame(header: str | bytes, kind: int = 0) -> bytes:
    raw = header if isinstance(header, bytes) else header.encode()
    return (len(raw) + 4).to_bytes(4, "big") + bytes([kind]) + len(raw).to_bytes(3, "big") + raw


def header(*, opaque: Any = 7, queue_offset: str = "64", commit: str = "32", **more: Any) -> str:
    fields = {"queueId": "1", "commitOffset": commit, "topic": "t", "queueOffset": queue_offset}
    whole = {"code": 11, "extFields": fields | more, "flag": 0, "opaque": opaque, "version": 479}
    return json.dumps(whole, separators=(",", ":"))


def ask(header: str | bytes, kind: int = 0) -> object:
    raw = frame(header, kind)
    return read_ask(b"before" + raw + b"a body", 6, 6 + len(raw))


def test_the_numbers_are_cut_out_and_the_rest_is_the_same_for_the_next() -> None:
    rest = header(opaque="", queue_offset="", commit="").replace('"opaque":""', '"opaque":')
    assert ask(header()) == (rest.encode(), 7, 64, 32)
    assert ask(header(opaque=-8, queue_offset="0", commit="-1")) == (rest.encode(), -8, 0, -1)
    most = "9" * 18
    assert ask(header(queue_offset=most)) == (rest.encode(), 7, int(most), 32)


def test_another_queue_or_topic_leaves_another_rest() -> None:
    first, *numbers = read_ask(frame(header()), 0, 8 + len(header())) or ()
    for other in (header(topic="u"), header(queueId="2"), header(maxMsgNums="9")):
        rest, *again = read_ask(frame(other), 0, 8 + len(other)) or ()
        assert rest != first
        assert again == numbers


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(header(opaque=1 << 31), id="an opaque of more than 32 bits"),
        pytest.param(header(opaque=1.5), id="an opaque that is not whole"),
        pytest.param(header(opaque="7"), id="an opaque in quotes"),
        pytest.param(header(queue_offset="064"), id="a nought before"),
        pytest.param(header(queue_offset="-0"), id="less than nought and yet not"),
        pytest.param(header(queue_offset="+64"), id="a plus"),
        pytest.param(header(queue_offset=" 64"), id="a space"),
        pytest.param(header(queue_offset=""), id="nothing"),
        pytest.param(header(queue_offset="1" * 19), id="too many digits"),
        pytest.param(header(commit="6é"), id="no number"),
        pytest.param(header(subscription='a"b'), id="a backslash"),
        pytest.param(header(more={"opaque": 8}), id="a name that is there twice"),
        pytest.param(header().replace('"commitOffset":"32",', ""), id="a name that is not there"),
        pytest.param(header().replace('"64"', "64"), id="a number without quotes"),
        pytest.param(header().replace(":", ": "), id="spaces"),
        pytest.param(header(topic="t" * MAX_HEADER_BYTES), id="a long one"),
        pytest.param(header()[: header().index('"opaque":') + 9], id="one that ends too early"),
        pytest.param(header()[: header().index('"opaque":') + 10], id="one that ends at it"),
        pytest.param("", id="an empty one"),
    ],
)
def test_whatever_is_written_otherwise_is_read_the_long_way(odd: str) -> None:
    assert ask(odd) is None


def test_binary_headers_are_read_the_long_way() -> None:
    assert ask(header(), kind=1) is None


def test_what_else_stands_in_a_buffer_is_not_looked_at() -> None:
    one = frame(header())
    two = one + frame(header(opaque=9, queue_offset="65"))
    first, second = read_ask(two, 0, len(one)), read_ask(two, len(one), len(two))
    assert first is not None
    assert second is not None
    assert first[0] == second[0]
    assert (first[1:], second[1:]) == ((7, 64, 32), (9, 65, 32))


def test_both_ways_agree_whatever_a_header_is() -> None:
    chance = random.Random(18)
    compiled_one, pure = compiled_functions(TWIN)["read_ask"]
    whole = header().encode()
    pieces = [b'"opaque":', b'"queueOffset":"', b'"commitOffset":"', b"1", b'"', b",", b"}", b"\\"]
    for _ in range(4000):
        raw = damaged(whole, chance)
        for _ in range(chance.randrange(3)):
            at = chance.randrange(len(raw) + 1)
            raw = raw[:at] + chance.choice(pieces) + raw[at:]
        buffer = frame(raw, chance.choice((0, 0, 0, 0, 1)))
        args = (buffer, 0, len(buffer))
        assert outcome(compiled_one, *args) == outcome(pure, *args), raw


def test_wrong_types_are_refused() -> None:
    assert_wrong_types_are_refused(TWIN)
