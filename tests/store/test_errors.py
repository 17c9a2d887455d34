"""Errors say what happened and carry the facts."""

from __future__ import annotations

from pathlib import Path

from rocketpipe.errors import StoreError
from rocketpipe.store import errors

FILE = Path("commitlog/0")


def test_each_is_a_store_error_that_names_its_facts() -> None:
    told = {
        "no room at commitlog/0 for 9 bytes, 3 bytes free: full": errors.StoreFull(
            FILE, 9, "full", free=3
        ),
        "no room at commitlog/0 for 9 bytes: full": errors.StoreFull(FILE, 9, "full"),
        "no room at commitlog/0, 3 bytes free: full": errors.StoreFull(FILE, 0, "full", free=3),
        "commitlog/0 is damaged at log offset 7: torn; whole records go on at 9": (
            errors.StoreDamaged(FILE, 7, "torn", 9)
        ),
        "commitlog/0 is damaged at log offset 7: torn; no whole record is behind it": (
            errors.StoreDamaged(FILE, 7, "torn")
        ),
        "commitlog/0 is locked: another broker has this directory": errors.StoreLocked(FILE),
        "commitlog/0: a later format": errors.FormatUnknown(FILE, "a later format"),
        "the store is closed": errors.StoreClosed(),
        "record at 7: torn": errors.RecordCorrupt(7, "torn"),
        "no record at 7: the log goes from 8 to 9": errors.RecordMissing(7, 8, 9),
        "a record of 9 bytes, where segments hold 8": errors.RecordTooLarge(9, 8),
        "commitlog/0: too short": errors.OddSegment(FILE, "too short"),
    }
    for text, error in told.items():
        assert isinstance(error, StoreError)
        assert str(error) == text


def test_only_a_full_store_is_worth_another_try() -> None:
    assert errors.StoreFull(FILE, 1, "full").retryable
    assert not errors.StoreFailed("EIO").retryable
