"""Queue entries have Apache's bytes, and those that can be right are told from others."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.record import hot
from rocketpipe.store.queues.entries import (
    BLANK_ENTRY,
    TagCodes,
    choose_entries,
    queue_entry,
    whole_entries,
)


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__]):
        yield


def test_a_queue_entry_has_apaches_bytes() -> None:
    expected = "000000000000100000000073000000000027a807"
    assert queue_entry(4096, 115, hot.tag_code(b"TAGS\x01TagA\x02")).hex() == expected


def test_whole_entries_end_where_order_does() -> None:
    entries = [queue_entry(n * 200, 100, n) for n in range(10)]
    data = b"".join(entries)
    assert whole_entries(data, 0, 10_000) == (10, 1900)
    assert whole_entries(data + bytes(40), 0, 10_000) == (10, 1900)
    assert whole_entries(data, 0, 1899) == (9, 1700)
    assert whole_entries(data, 1, 10_000) == (0, 1)
    assert whole_entries(BLANK_ENTRY * 3 + data, 0, 10_000) == (13, 1900)
    assert whole_entries(data + BLANK_ENTRY, 0, 10_000) == (10, 1900)
    assert whole_entries(entries[1] + entries[1], 0, 10_000) == (1, 300)
    assert whole_entries(queue_entry(-1, 100, 0), 0, 10_000) == (0, 0)
    assert whole_entries(queue_entry(0, 90, 0), 0, 10_000) == (0, 0)


def test_entries_are_chosen_by_the_hash_of_their_tag() -> None:
    codes = (5, -5, 0, (1 << 31) - 1, -(1 << 31), (1 << 40) + 5, -(1 << 40) - 5, 6)
    there = b"".join(queue_entry(n * 200, 200, code) for n, code in enumerate(codes))
    wanted: list[frozenset[int]] = [
        frozenset(),
        frozenset({5}),
        frozenset({-5, 0}),
        frozenset({(1 << 31) - 1, -(1 << 31)}),
        frozenset({(1 << 40) + 5}),
        frozenset(range(100)),
        frozenset({5, 1 << 80}),
    ]
    for each in wanted:
        matches = TagCodes(each)
        found, passed, removed = choose_entries(there, 0, 32, 1 << 20, matches)
        assert [number for _, _, number in found] == [
            number for number, code in enumerate(codes) if matches(code)
        ]
        assert (passed, removed) == (len(codes), False)
        assert found == choose_entries(there, 0, 32, 1 << 20, matches.__call__)[0]
    (first, second), passed, _ = choose_entries(there, 0, 2, 1 << 20, TagCodes(frozenset({5, 6})))
    assert (first[2], second[2], passed) == (0, 5, 6)
    assert TagCodes(frozenset({5}))((1 << 40) + 5)
    assert not TagCodes(frozenset({5}))(-(1 << 40) - 5)


def test_whole_entries_never_raises() -> None:
    chance = random.Random(1)
    for _ in range(200):
        data = chance.randbytes(20 * chance.randrange(5))
        count, behind = whole_entries(data, 0, 1 << 40)
        assert 0 <= count <= len(data) // 20
        assert behind >= 0
