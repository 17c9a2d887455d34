"""Stores that Apache's own brokers left behind, read record by record; see tests/golden."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from rocketpipe.model import properties
from rocketpipe.model.flags import Transaction
from rocketpipe.model.message import StoredMessage
from rocketpipe.record.codec import RecordView, decode_record, encode_record, view_records, walk
from rocketpipe.record.hot import tag_code
from rocketpipe.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC

GOLDEN = Path(__file__).parents[1] / "golden"
STORES = ["4.9.7-stop", "4.9.7-kill", "5.5.0-stop", "5.5.0-kill"]
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
ENTRY = Struct(">qiq")
UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000}


@dataclass(frozen=True)
class Store:
    answers: dict[str, Any]
    #: Segments of the commit log by their first offset.
    segments: dict[int, bytes]
    #: Entries by topic, queue and queue offset: log offset, size, tag code.
    entries: dict[tuple[str, int, int], tuple[int, int, int]]

    def record(self, log_offset: int, size: int) -> bytes:
        base = log_offset - log_offset % self.answers["settings"]["mappedFileSizeCommitLog"]
        return self.segments[base][log_offset - base : log_offset - base + size]

    def records(self) -> dict[int, bytes]:
        """Every record of the log by its offset."""
        return {
            base + at: segment[at : at + size]
            for base, segment in sorted(self.segments.items())
            for at, size in walk(segment)
        }


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest) -> Store:
    segments: dict[int, bytes] = {}
    entries: dict[tuple[str, int, int], tuple[int, int, int]] = {}
    with tarfile.open(GOLDEN / f"{request.param}.tar.xz") as archive:
        for member in archive:
            match member.name.split("/"):
                case ["store", "commitlog", base] if member.isfile():
                    segments[int(base)] = _content(archive, member)
                case ["store", "consumequeue", topic, queue, base] if member.isfile():
                    first = int(base) // ENTRY.size
                    for index, entry in enumerate(ENTRY.iter_unpack(_content(archive, member))):
                        if entry[1]:
                            entries[topic, int(queue), first + index] = entry
    answers = json.loads((GOLDEN / f"{request.param}.json").read_text("utf-8"))
    return Store(answers, segments, entries)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def test_segments_follow_each_other_and_each_is_walked_to_its_end(store: Store) -> None:
    size = store.answers["settings"]["mappedFileSizeCommitLog"]
    bases = sorted(store.segments)
    ended = [base for base in bases if any(store.segments[base])]
    assert len(ended) >= 4
    assert bases == list(range(0, len(bases) * size, size))
    for base in ended:
        segment = store.segments[base]
        assert len(segment) == size
        at, length = list(walk(segment))[-1]
        remaining, magic = SIZE_AND_MAGIC.unpack_from(segment, at + length)
        if base == ended[-1]:
            assert (remaining, magic) == (0, 0)
            assert not any(segment[at + length :])
        else:
            assert magic == BLANK_MAGIC
            assert remaining == size - at - length


def test_every_record_is_written_again_byte_for_byte(store: Store) -> None:
    records = store.records()
    assert len(records) >= len(store.answers["messages"])
    for log_offset, raw in records.items():
        message = decode_record(raw)
        assert message.log_offset == log_offset
        assert encode_record(message) == raw
        assert RecordView(raw).message() == message


def test_what_the_broker_answered_is_what_its_log_says(store: Store) -> None:
    records = store.records()
    for answer in store.answers["messages"]:
        message = decode_record(records[answer["log_offset"]])
        assert message.topic == answer["topic"]
        assert message.queue_id == answer["queue"]
        assert message.queue_offset == answer["offset"]
        assert dict(message.properties) == answer["properties"]
        assert message.reconsume_times == answer["reconsume"]
        assert len(message.body) == answer["body_bytes"]
        assert hashlib.sha256(message.body).hexdigest() == answer["body_sha256"]
        if "body" in answer:
            assert message.body == base64.b64decode(answer["body"])


def test_queue_entries_are_what_we_compute_of_the_records(store: Store) -> None:
    assert len(store.entries) >= len(store.answers["messages"])
    delays = [
        int(delay[:-1]) * UNIT_MS[delay[-1]]
        for delay in store.answers["settings"]["messageDelayLevel"].split()
    ]
    for (topic, queue, offset), (log_offset, size, code) in store.entries.items():
        message = decode_record(store.record(log_offset, size))
        assert (message.topic, message.queue_id) == (topic, queue)
        assert message.queue_offset == offset
        if topic == SCHEDULE_TOPIC:
            # There the field says when the message falls due.
            assert code == message.stored_ms + delays[message.delay_level - 1]
        else:
            assert code == tag_code(message.raw_properties)


def test_every_record_but_half_done_transactions_has_one_queue_entry(store: Store) -> None:
    messages = [decode_record(raw) for raw in store.records().values()]
    listed = [
        message.log_offset
        for message in messages
        if message.transaction in (Transaction.NONE, Transaction.COMMITTED)
    ]
    assert sorted(entry[0] for entry in store.entries.values()) == listed
    assert any(message.transaction is Transaction.COMMITTED for message in messages)


def test_records_of_one_queue_read_as_a_pull_body(store: Store) -> None:
    pulled = [
        store.record(log_offset, size)
        for (topic, queue, _), (log_offset, size, _) in sorted(store.entries.items())
        if (topic, queue) == ("orders", 0)
    ]
    views = list(view_records(b"".join(pulled)))
    assert [view.raw for view in views] == pulled
    assert [view.queue_offset for view in views] == list(range(len(pulled)))
    assert all(len(view.body) == len(view.stored_body) for view in views)


def test_our_text_form_of_the_properties_reads_the_same(store: Store) -> None:
    for raw in store.records().values():
        message: StoredMessage = decode_record(raw)
        ours = properties.encode_bytes(dict(message.properties))
        assert properties.decode_bytes(ours) == message.properties
        # 5.x writes the last separator, and 4.9 does not.
        assert ours in (message.raw_properties, message.raw_properties + b"\x02")
