"""Columns into batch bodies, read back by what reads them for a broker."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.model import properties as well_known
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.model.message import Message
from rocketpipe.pipeline.columns.encode import MOST_PROPERTIES_BYTES, Entries, KeyRun, encode_rows
from rocketpipe.pipeline.columns.write_rows import BadRow, rows_by_topic
from rocketpipe.record.batch import Entry, decode_batch

NOW_MS = 1_700_000_000_000
MAP = pa.map_(pa.string(), pa.string())


def run() -> KeyRun:
    return KeyRun(UniqueKeys(b"\x0a\x00\x00\x01", 77, 5))


def encoded(**columns: Any) -> Entries:
    [(_, rows)] = rows_by_topic(pa.record_batch(columns), "orders")
    return encode_rows(rows, run(), NOW_MS)


def read(entries: Entries) -> list[Entry]:
    return list(decode_batch(bytes(entries.data[: int(entries.starts[-1])])))


WORDS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x2FFFF, exclude_categories=["Cs"]))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "body": st.binary(min_size=1, max_size=50),
            "tags": st.none() | WORDS.filter(bool),
            "keys": st.none() | st.lists(WORDS.filter(bool), max_size=3),
            "properties": st.none()
            | st.dictionaries(
                WORDS.filter(lambda name: name and name not in well_known.RESERVED),
                WORDS.filter(bool),
                max_size=3,
            ),
        }
    ),
    min_size=1,
    max_size=8,
)


@given(ROWS)
def test_rows_come_out_as_the_messages_a_producer_would_send(rows: list[dict[str, Any]]) -> None:
    entries = encoded(
        body=[row["body"] for row in rows],
        tags=pa.array([row["tags"] for row in rows], pa.string()),
        keys=pa.array([row["keys"] for row in rows], pa.list_(pa.string())),
        properties=pa.array(
            [
                None if row["properties"] is None else list(row["properties"].items())
                for row in rows
            ],
            MAP,
        ),
    )
    found = read(entries)
    assert [entry.body for entry in found] == [row["body"] for row in rows]
    for entry, row in zip(found, rows, strict=True):
        message = Message(
            "orders",
            row["body"],
            tags=row["tags"],
            keys=row["keys"] or (),
            properties=row["properties"] or {},
        )
        wanted = message.all_properties()
        given = well_known.decode_bytes(entry.raw_properties)
        assert len(given.pop(well_known.UNIQ_KEY)) == 32
        assert given == wanted
        assert list(given) == list(wanted)


def test_every_message_has_a_key_of_its_own_however_many_there_are() -> None:
    keys = run()
    found = [keys.take(70_000, NOW_MS), keys.take(3, NOW_MS), keys.take(2, NOW_MS + 60_000)]
    texts = [row.tobytes().decode() for digits in found for row in digits]
    assert len(set(texts)) == 70_005
    assert {text[:20] for text in texts} == {"0A000001004D00000005"}
    assert texts == sorted(texts)


def test_delays_are_written_where_a_row_has_one() -> None:
    found = read(encoded(body=["a", "b"], delay_level=pa.array([None, 3], pa.int16())))
    levels = [well_known.decode_bytes(entry.raw_properties).get("DELAY") for entry in found]
    assert levels == [None, "3"]


def test_entries_are_cut_into_bodies_of_limited_size_and_a_long_one_goes_alone() -> None:
    entries = encoded(body=["x", "y", "z" * 500, "u", "v"])
    size = len(entries.body(0))
    bodies = list(entries.bodies(2 * size))
    assert [count for _, count in bodies] == [2, 1, 2]
    assert b"".join(bytes(body) for body, _ in bodies) == bytes(entries.data)
    assert [count for _, count in entries.bodies(2 * size, 1, 4)] == [1, 1, 1]
    assert [count for _, count in entries.bodies(1 << 20)] == [5]


def test_sums_are_of_what_rows_say_and_not_of_when_they_are_written() -> None:
    entries = encoded(body=["x", "y", "z" * 500], keys=["k", None, "long"])
    begin = crc32(b"orders")
    each = [bytes(entries.body(at)) for at in range(3)]
    told = [crc32(one[: -entries.tail_bytes], begin) for one in each]
    assert entries.checksums(begin).tolist() == told
    assert entries.take(np.array([2, 0])).checksums(begin).tolist() == [told[2], told[0]]
    later = encoded(body=["x", "y", "z" * 500], keys=["k", None, "long"])
    assert later.checksums(begin).tolist() == told


def test_properties_that_are_too_long_are_named_by_row() -> None:
    long = pa.array([[("n", "x")], [("n", "x" * MOST_PROPERTIES_BYTES)]], MAP)
    with pytest.raises(BadRow, match="are the most") as caught:
        encoded(body=["a", "b"], properties=long)
    assert caught.value.row == 1
