"""A batch that is stored later than it was sent, as one group with what says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.broker.intake.plain_batch import PlainBatch, PutGroup, plain_count
from rocketpipe.broker.intake.sent_properties import MAX_TEXT_BYTES
from rocketpipe.model.flags import BORN_HOST_V6, INNER_BATCH
from rocketpipe.record.batch import encode_batch
from rocketpipe.store.errors import RecordTooLarge
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.puts import Put

HOST = bytes((10, 0, 0, 3, 0, 0, 195, 81))
SUFFIX = b"CLUSTER\x01c\x02"
PLAIN = b"KEYS\x01k\x02UNIQ_KEY\x01K1\x02TAGS\x01a\x02"
LIKE = Put("t", 3, b"", b"", 0, 0, 1_700_000_000_000, HOST)
LAST = Put("ledger", 1, b'{"do":"delivered"}', b"", 0, 0, 1_700_000_000_001, HOST)


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__]):
        yield


def batch(*texts: bytes) -> bytes:
    return encode_batch([(number, b"b%d" % number, text) for number, text in enumerate(texts)])


def appender(segment: int = 1 << 20, host: bytes = HOST, *, seal: bool = True) -> Appender:
    return Appender(segment, host, lambda topic, queue: 10 * queue + len(topic), seal=seal)


def test_messages_of_the_usual_form_are_counted() -> None:
    assert plain_count(batch(PLAIN)) == 1
    assert plain_count(batch(PLAIN, PLAIN[:-1], b"UNIQ_KEY\x01K2")) == 3


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"TAGS\x01a\x02",
        PLAIN + b"DELAY\x011\x02",
        PLAIN + b"WAIT\x01false\x02",
        PLAIN + PLAIN,
        PLAIN + "n\x01ä".encode(),
        PLAIN + b"n\x01" + b"x" * MAX_TEXT_BYTES,
    ],
)
def test_a_batch_with_another_message_is_not(odd: bytes) -> None:
    assert plain_count(batch(PLAIN, odd)) == 0


def test_what_is_no_batch_has_no_messages() -> None:
    whole = batch(PLAIN, PLAIN)
    assert plain_count(b"") == 0
    for cut in range(1, len(whole)):
        assert plain_count(whole[:cut]) == (1 if 2 * cut == len(whole) else 0)
    assert plain_count(whole + b"\0") == plain_count(bytes(40)) == plain_count(b"\xff" * 40) == 0


def expected(texts: Sequence[bytes], like: Put) -> list[Put]:
    ended = [text if text.endswith(b"\x02") else text + b"\x02" for text in texts]
    puts = [
        like._replace(body=b"b%d" % number, flag=number, properties=text + SUFFIX)
        for number, text in enumerate(ended)
    ]
    return [*puts, LAST]


@pytest.mark.parametrize("host", [HOST, bytes(range(20))])
@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize("sys_flag", [0, BORN_HOST_V6, INNER_BATCH | 1, 4])
@pytest.mark.parametrize("texts", [(PLAIN,), (PLAIN, PLAIN[:-1]), (PLAIN, PLAIN + b"a\x01#")])
def test_records_are_those_of_the_messages_one_by_one(
    host: bytes, seal: bool, sys_flag: int, texts: tuple[bytes, ...]
) -> None:
    like = LIKE._replace(sys_flag=sys_flag, born_host=host)
    made = PlainBatch(batch(*texts), like, SUFFIX, LAST)
    found = made.encode(appender(host=host, seal=seal), 4096, 22)
    wanted = appender(host=host, seal=seal).encode([expected(texts, like)], 4096, 22)
    assert found._replace(placed=None) == wanted._replace(placed=None)
    assert made.last_record == wanted.last_record


@pytest.mark.parametrize("suffix", [SUFFIX, b"S\x01#\x02", b""])
def test_a_group_that_goes_on_in_the_next_segment_is_the_same(suffix: bytes) -> None:
    texts = [PLAIN] * 10
    for start in range(0, 4088, 8):
        made = PlainBatch(batch(*texts), LIKE, suffix, LAST)
        found = made.encode(appender(4096), start, 22)
        puts = [
            each._replace(properties=each.properties[: -len(SUFFIX)] + suffix)
            for each in expected(texts, LIKE)[:-1]
        ]
        wanted = PutGroup([*puts, LAST])
        assert found._replace(placed=None) == wanted.encode(appender(4096), start, 22)._replace(
            placed=None
        )
        assert made.last_record == wanted.last_record


def test_what_fits_into_no_segment_is_refused() -> None:
    with pytest.raises(RecordTooLarge):
        PlainBatch(batch(PLAIN), LIKE, SUFFIX, LAST).encode(appender(128), 0, 22)
