"""What a store shows: by place, by queue, by key and by time, and nothing that is not confirmed."""

from __future__ import annotations

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import decode_record, view_records
from rocketpipe.store.errors import RecordCorrupt, RecordMissing
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import open_store, put


def test_a_record_is_read_by_its_offset_and_nothing_else_is() -> None:
    store = open_store(SimDisk())
    ((first,), (second,)) = store.append([[put(b"first")], [put(b"second")]])
    assert decode_record(store.record_at(second.log_offset)).body == b"second"
    for offset in (-1, store.positions.written, 1 << 40):
        with pytest.raises(RecordMissing):
            store.record_at(LogOffset(offset))
    with pytest.raises(RecordCorrupt):
        store.record_at(LogOffset(first.log_offset + 1))


def test_every_way_to_a_message_ends_where_it_is_acknowledged() -> None:
    store = open_store(SimDisk())
    (((first,), (second,))) = store.append([[put(b"first")], [put(b"second")]])
    store.positions.begin_acknowledged(second.log_offset)
    store.dispatch()
    found = store.read("plain", 0, QueueOffset(0), max_count=9)
    assert [view.body for view in view_records(found.records)] == [b"first"]
    assert (store.min_offset("plain", 0), store.max_offset("plain", 0)) == (0, 1)
    assert list(store.find_by_key("plain", "some-key", 0, 1 << 60)) == [first.log_offset]
    assert store.offset_at_time("plain", 0, 1 << 60) == 1
    assert store.earliest_stored_ms("plain", 0) == first.stored_ms
    assert list(store.queues()) == [("plain", 0)]
    with pytest.raises(RecordMissing):
        store.record_at(second.log_offset)
    # So does a record that is acknowledged in part.
    store.positions.acknowledged = LogOffset(store.positions.written - 1)
    store.dispatch()
    assert store.max_offset("plain", 0) == 1
    with pytest.raises(RecordCorrupt, match="a size of"):
        store.record_at(second.log_offset)
