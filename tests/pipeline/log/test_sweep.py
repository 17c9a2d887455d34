"""Records that are taken apart in one pass, beside the columns that `Records` makes of them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.support.stores import spread_store
from tests.twins import compiled_functions, damaged

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.columns.records import DamagedRecord, Records
from rocketpipe.pipeline.log.directory import LogDirectory
from rocketpipe.pipeline.log.offsets import LogOffsets
from rocketpipe.pipeline.log.queue_view import ENTRY
from rocketpipe.pipeline.log.reading import in_log_order
from rocketpipe.pipeline.log.sweep import Sweep
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.record import hot

TWIN = "rocketpipe.pipeline.log._sweep"
V4, V6 = bytes((127, 0, 0, 1, 0, 0, 42, 159)), bytes(19) + b"\x01"
COLUMNS = (
    *("topic", "queue_id", "queue_offset", "log_offset", "keys", "tags", "body"),
    *("born_timestamp", "store_timestamp", "unique_key", "reconsume_times", "sys_flag"),
)
PROPERTIES = (
    b"",
    b"TAGS\x01paid\x02",
    b"KEYS\x01k1 k2  k3\x02UNIQ_KEY\x017F00\x02TAGS\x01a\x02",
    b"TAGS\x01\x02KEYS\x01",
    b"TAGS\x01first\x02TAGS\x01last\x02TAGS\x01\x02",
    b"XTAGS\x01no\x02TAGS\x01yes",
    "TAGS\x01标签\x02KEYS\x01键 k\x02".encode(),
    b"x\xff\x01\xe4\xbd\x02TAGS\x01ok\x02",
    b"TAGS\x01a\x01b=1,|| \"'\x02",
)
BAD_TAG = b"TAGS\x01\xff\xfe\x02"
#: As `put` of a small store has it.
TOPIC = "plain"
QUEUE = MessageQueue(topic=TOPIC, broker_name="b", queue_id=3)


def a_record(chance: random.Random, at: int, offset: int, properties: bytes) -> bytes:
    born, stored = chance.choice((V4, V4, V6)), chance.choice((V4, V4, V6))
    flags = (16 if len(born) > 8 else 0) | (32 if len(stored) > 8 else 0)
    topic = TOPIC.encode()
    magic, head = hot.topic_head(topic)
    body = chance.choice((b"", b"body", chance.randbytes(64), chance.randbytes(200)))
    times = chance.choice((0, 1_700_000_000_123, -1, 1 << 62))
    return hot.encode(
        magic, 3, 0, offset, at, flags, times, born, times, stored, 2, 0, body, head, properties
    )  # fmt: skip


class OneFile:
    """Stands for the directory of a log that is one file, with one queue."""

    def __init__(self, path: Path, entries: np.ndarray) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._entries = entries
        self.log = self
        self.first_offset, self.end, self.segment_bytes = 0, 1 << 30, 1 << 30

    def entries(self, *_: object) -> np.ndarray:
        return self._entries

    def segment_of(self, _: int) -> tuple[int, OneFile]:
        return 0, self

    def fileno(self) -> int:
        return self._file

    def close(self) -> None:
        os.close(self._file)


@given(st.builds(random.Random, st.integers(0, (1 << 32) - 1)), st.booleans())
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_are_those_of_records(tmp_path: Path, chance: random.Random, hurt: bool) -> None:
    compiled_functions(TWIN)
    log, places = b"", []
    for number in range(chance.randrange(1, 9)):
        log += bytes(chance.choice((0, 0, 300, 20_000)))  # records of other queues
        odd = BAD_TAG if hurt and chance.random() < 0.1 else chance.choice(PROPERTIES)
        record = a_record(chance, len(log), number, odd)
        places.append((len(log), len(record), 0))
        log += record
    if hurt:
        log = damaged(log, chance)
    (tmp_path / "log").write_bytes(log)
    entries = np.array(places, ENTRY)
    columns = [name for name in COLUMNS if chance.random() < 0.5] or ["tags"]
    whole = QueueRange(QUEUE, QueueOffset(0), QueueOffset(len(places)))
    file = OneFile(tmp_path / "log", entries)
    try:
        found = Sweep(file, columns).read([whole])  # type: ignore[arg-type]
    finally:
        file.close()
    if found is None:
        assert hurt
        return
    [plain] = found
    starts = entries["at"].astype(np.int64)
    records = Records(log, starts, entries["size"].astype(np.int64))
    assert plain.count == records.count
    assert (records.log_offsets == starts).all()
    for name in columns:
        column = plain.column(name, "b")
        column.validate(full=True)
        assert column.equals(records.column(name, "b")), name


@given(
    st.lists(st.lists(st.integers(0, 60) | st.integers(-2, 1 << 63), max_size=12), max_size=18),
    st.booleans(),
)
def test_entries_are_merged_as_they_are_sorted(places: list[list[int]], ascend: bool) -> None:
    merge, pure = compiled_functions(TWIN)["merge"]
    pieces = []
    for number, piece in enumerate(places):
        rows = [(at & (1 << 63) - 1 if at > 0 else at, 100, number * 100 + n)
                for n, at in enumerate(sorted(piece) if ascend else piece)]  # fmt: skip
        pieces.append(np.array(rows, ENTRY))
    octets = tuple(piece.view(np.uint8) for piece in pieces)
    room = np.zeros(sum(piece.size for piece in octets), np.uint8)
    assert pure(octets, room) is False
    whole = all((np.diff(piece["at"].astype(np.int64)) >= 0).all() for piece in pieces)
    least = min((int(piece["at"].min()) for piece in pieces if piece.size), default=0)
    if merge(octets, room):
        assert room.tobytes() == in_log_order(pieces).tobytes()
    else:
        assert not whole or least < 0 or not 0 < len(pieces) <= 16


def test_no_room_is_left_or_overrun_by_a_merge() -> None:
    merge, _ = compiled_functions(TWIN)["merge"]
    piece = np.zeros(40, np.uint8)
    for pieces, room in (((piece,), 39), ((piece, piece), 60), ((piece[:39],), 39), ((piece,), 60)):
        with pytest.raises(ValueError, match="entries"):
            merge(pieces, np.zeros(room, np.uint8))


@pytest.mark.parametrize("column", ["body", "tags"])
def test_only_what_is_asked_for_is_looked_at(tmp_path: Path, column: str) -> None:
    """A body that is damaged is nothing to who asks for tags."""
    compiled_functions(TWIN)
    records = (a_record(random.Random(seed), 0, 0, b"TAGS\x01x\x02") for seed in range(1000))
    record = next(each for each in records if b"body" in each).replace(b"body", b"bodY")
    (tmp_path / "log").write_bytes(record)
    entries = np.array([(0, len(record), 0)], ENTRY)
    whole = QueueRange(QUEUE, QueueOffset(0), QueueOffset(1))
    file = OneFile(tmp_path / "log", entries)
    found = Sweep(file, [column]).read([whole])  # type: ignore[arg-type]
    file.close()
    assert (found is None) == (column == "body")
    if column == "body":
        with pytest.raises(DamagedRecord):
            Records(record, np.array([0]), np.array([len(record)])).column("body")


def test_a_batch_over_several_files_comes_in_the_order_of_the_log(tmp_path: Path) -> None:
    compiled_functions(TWIN)
    spread_store(tmp_path / "store", 90, 3)
    places = LogOffsets(tmp_path / "store")
    ends = places.ends(places.queues(TOPIC))
    places.close()
    ranges = [each for queue in sorted(ends) if (each := QueueRange(queue, *ends[queue])).count]
    with LogDirectory(tmp_path / "store") as directory:
        found = Sweep(directory, ["body", "queue_id"]).read(ranges)
        assert found is not None
        assert len(found) > 1
        bodies = pa.concat_arrays([each.column("body", "") for each in found])
        assert bodies.to_pylist() == [b"%d" % number for number in range(90)]
        assert Sweep(directory, ["properties"]).read(ranges) is None
