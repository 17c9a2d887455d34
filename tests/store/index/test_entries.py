"""Index entries, and the hashes of keys, as Apache's classes make them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.record import hot
from rocketpipe.store.index.entries import key_hash, key_hashes


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__]):
        yield


def test_keys_have_apaches_hashes() -> None:
    assert key_hash("T", "k1") == 2539445
    assert key_hash("TopicTest", "order-1") == 1829193424


def test_the_hash_that_has_no_positive_counterpart_is_0() -> None:
    # Its Java hash is -2147483648.
    assert hot.java_hash("polygenelubricants") == -(1 << 31)
    topic, _, key = "a#" + "polygenelubricants", "", ""
    assert 0 <= key_hash(topic, key) <= 0x7FFFFFFF
    found = _with_least_hash()
    assert hot.java_hash(f"{found[0]}#{found[1]}") == -(1 << 31)
    assert key_hash(*found) == 0


def _with_least_hash() -> tuple[str, str]:
    """A topic and key whose text has the least Java hash: the end makes up for the start."""
    start = (hot.java_hash("T#") * pow(31, 7, 1 << 32)) & 0xFFFFFFFF
    missing = ((1 << 31) - start) % (1 << 32)
    units = []
    for power in range(6, -1, -1):
        unit = min(missing // 31**power, 0xD7FF)
        units.append(unit)
        missing -= unit * 31**power
    assert missing == 0
    return "T", "".join(map(chr, units))


def test_a_message_is_indexed_under_its_unique_key_and_each_of_its_keys() -> None:
    properties = b"KEYS\x01k1  k2 \x02UNIQ_KEY\x01U1\x02TAGS\x01TagA\x02"
    keys = [key_hash("T", key) for key in ("U1", "k1", "k2")]
    assert key_hashes("T", properties) == keys
    assert key_hashes("T", properties, tags=True) == [*keys, key_hash("T", "T#TagA")]
    assert key_hashes("T", b"") == []
