"""The property that ties a group together."""

from __future__ import annotations

import pytest

from rocketpipe.record import checksum, hot
from rocketpipe.store.log.batch_mark import MARK_BYTES, read_mark, strip_mark, write_mark


def test_it_is_read_where_it_was_written_with_a_checksum_behind_it_or_not() -> None:
    mark = write_mark(0x1234, (1 << 62) + 5)
    assert len(mark) == MARK_BYTES
    record = b"body" + mark
    assert read_mark(record, sealed=False) == (0x1234, (1 << 62) + 5)
    sealed = hot.seal(b"body" + checksum.reserve(mark))
    assert read_mark(sealed, sealed=True) == (0x1234, (1 << 62) + 5)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"short",
        b"x" * 100,
        b"__BATCH#\x01" + b"z" * 32 + b"\x02",
        write_mark(1, 2)[:-1] + b"\x03",
        write_mark(1, 2) + b"a\x01b\x02",
    ],
)
def test_anything_else_belongs_to_no_group(record: bytes) -> None:
    assert read_mark(record, sealed=False) is None


def test_senders_cannot_write_it() -> None:
    assert strip_mark(b"a\x01b\x02" + write_mark(1, 2) + b"c\x01d") == b"a\x01b\x02c\x01d"
    assert strip_mark(b"a\x01__BATCH#\x02") == b"a\x01__BATCH#\x02"
