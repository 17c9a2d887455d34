from __future__ import annotations

from array import array

from rocketpipe.store.index.layout import HEADER, big_endian, file_bytes, runs


def test_a_file_is_as_long_as_apaches() -> None:
    assert file_bytes(5_000_000, 20_000_000) == 420_000_040
    assert HEADER.size == 40


def test_slots_are_big_endian_whatever_the_machine_is() -> None:
    assert big_endian(array("i", [1, 0, 258])) == bytes([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2])


def test_pages_that_follow_each_other_are_one_run() -> None:
    assert list(runs([3])) == [(3, 3)]
    assert list(runs([0, 1, 2, 5, 7, 8])) == [(0, 2), (5, 5), (7, 8)]
