"""The store as a whole: append, durability, reading, failure, and the end."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.store.support.arrival_log import ArrivalLog
from tests.waiting import PATIENCE_S

from rocketpipe.clock import SystemClock
from rocketpipe.errors import InvalidName, RecordError, StoreError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import view_records
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.errors import (
    RecordMissing,
    StoreClosed,
    StoreFailed,
    StoreFull,
)
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.puts import Encoded, Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.reader import ReadStatus
from rocketpipe.store.state.checkpoint import read_checkpoint
from rocketpipe.store.state.health import StoreState
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
LOG = ROOT / "commitlog"
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


def put(body: bytes = b"body", **changes: Any) -> Put:
    values: dict[str, Any] = {
        "topic": "t",
        "queue_id": 0,
        "properties": b"TAGS\x01A\x02",
        "flag": 0,
        "sys_flag": 0,
        "born_ms": 1,
        "born_host": HOST,
    }
    return Put(body=body, **{**values, **changes})


def open_store(disk: SimDisk, **changes: Any) -> MessageStore:
    config = StoreConfig.embedded(ROOT, **{"segment_bytes": 1024, **changes})
    return MessageStore.open(config, disk=disk, clock=ManualClock(), store_host=HOST, threads=False)


def bodies(store: MessageStore, queue_id: int = 0) -> list[bytes]:
    found: list[bytes] = []
    at, end = store.min_offset("t", queue_id), store.max_offset("t", queue_id)
    while at < end:
        result = store.read("t", queue_id, QueueOffset(at), max_count=32)
        found += [view.body for view in view_records(result.records)]
        at = result.next_offset
    return found


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


# Appending


def test_many_records_for_many_queues_are_one_write(disk: SimDisk) -> None:
    store = open_store(disk, segment_bytes=65536)
    store.append([[put()]])
    operations = disk.operations
    placed = store.append([[put(b"%d" % n, queue_id=n % 3)] for n in range(30)])
    assert disk.operations - operations == 1
    assert [[each.queue_offset for each in group] for group in placed[:4]] == [[1], [0], [0], [2]]
    store.dispatch()
    assert bodies(store, 1) == [b"%d" % n for n in range(1, 30, 3)]


def test_nothing_is_seen_before_it_is_dispatched_and_confirmed(disk: SimDisk) -> None:
    store = open_store(disk, flush=FlushMode.SYNC)
    store.append([[put()]])
    assert store.dispatch() == 0
    assert store.max_offset("t", 0) == 0
    assert store.read("t", 0, QueueOffset(0), max_count=1).status in (
        ReadStatus.NO_MATCHED_LOGIC_QUEUE,
        ReadStatus.NO_MESSAGE_IN_QUEUE,
    )
    with pytest.raises(RecordMissing):
        store.record_at(LogOffset(0))
    store.flush()
    assert store.behind_bytes > 0
    assert store.dispatch() == 1
    assert store.behind_bytes == 0
    assert bodies(store) == [b"body"]


def test_store_times_never_go_back(disk: SimDisk) -> None:
    clock = ManualClock(now_ms=1000)
    config = StoreConfig.embedded(ROOT)
    store = MessageStore.open(config, disk=disk, clock=clock, store_host=HOST, threads=False)
    ((first,),) = store.append([[put()]])
    clock._start_ms = 500
    ((second,),) = store.append([[put()]])
    assert (first.stored_ms, second.stored_ms) == (1000, 1000)


def test_a_clock_that_was_ahead_for_one_message_leaves_a_store_that_is_right(
    disk: SimDisk,
) -> None:
    clock = ManualClock(now_ms=1_000_000)
    config = StoreConfig.embedded(ROOT)
    store = MessageStore.open(config, disk=disk, clock=clock, store_host=HOST, threads=False)
    times = []
    for now_ms in (9_000_000, 1_000_000, 9_000_000, 1_000_001):
        clock._start_ms = now_ms
        ((placed,),) = store.append([[put(properties=b"KEYS\x01k\x02")]])
        times.append(placed.stored_ms)
        store.dispatch()
    assert times == [9_000_000, 1_000_000, 9_000_000, 1_000_001]
    assert len(list(store.find_by_key("t", "k", 0, 1_000_001))) == 2
    assert len(list(store.find_by_key("t", "k", 0, 9_000_000))) == 4
    store.close()
    report = check_store(disk, ROOT)
    assert report.ok, report.lines()
    assert report.times_back == 2
    store = MessageStore.open(config, disk=disk, clock=clock, store_host=HOST, threads=False)
    ((placed,),) = store.append([[put()]])
    assert placed.stored_ms == 1_000_001
    assert len(list(store.find_by_key("t", "k", 0, 1_000_001))) == 2
    store.close()


def test_arrivals_are_told_in_order_once_they_can_be_read(disk: SimDisk) -> None:
    arrivals = ArrivalLog()
    config = StoreConfig.embedded(ROOT)
    store = MessageStore.open(
        config,
        disk=disk,
        clock=ManualClock(),
        store_host=HOST,
        threads=False,
        on_arrival=arrivals,
    )
    store.append([[put()], [put(queue_id=1)], [put(sys_flag=4)]])
    assert arrivals.arrived == []
    store.dispatch()
    assert [arrival[:3] for arrival in arrivals.arrived] == [("t", 0, 0), ("t", 1, 0)]


class Prepared:
    """Messages of which the store sees nothing but their records."""

    def __init__(self, *groups: list[Put]) -> None:
        self.groups = list(groups)

    def encode(self, appender: Appender, start: int, stored_ms: int) -> Encoded:
        return appender.encode(self.groups, start, stored_ms)._replace(placed=None)


@pytest.mark.parametrize("checksum", [True, False])
def test_what_others_made_records_of_is_shown_as_any_message(disk: SimDisk, checksum: bool) -> None:
    config = StoreConfig.embedded(ROOT, segment_bytes=65536, checksum=checksum)
    arrivals = ArrivalLog()
    store = MessageStore.open(
        config,
        disk=disk,
        clock=ManualClock(),
        store_host=HOST,
        on_arrival=arrivals,
        threads=False,
    )
    keyed = put(b"two", properties=b"KEYS\x01k\x02UNIQ_KEY\x01u\x02")
    for number in range(2):  # of a topic that is not known, and of one that is
        end = store.append_from(Prepared([put(b"one")], [keyed, put(b"three", queue_id=1)]))
        assert end == store.positions.written
        assert bodies(store) == [b"one", b"two"] * number
        assert store.dispatch() == 3
    store.append([[put(b"last")]])
    store.dispatch()
    assert bodies(store) == [b"one", b"two", b"one", b"two", b"last"]
    assert bodies(store, 1) == [b"three", b"three"]
    assert [arrival[1:3] for arrival in arrivals.arrived] == [
        *((0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1), (0, 4))
    ]
    assert len(list(store.derived.index.find("t", "k"))) == 2
    assert len(list(store.derived.index.find("t", "u"))) == 2
    store.close()
    report = check_store(disk, ROOT)
    assert report.ok, report.lines()


def test_what_others_made_records_of_may_go_on_in_the_next_segment(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(disk, segment_bytes=1024)
    store.append([[put()]])  # its topic is known from then on
    store.dispatch()

    def not_read(*_: Any, **__: Any) -> Any:
        raise AssertionError("the log is read")

    monkeypatch.setattr(store.commit_log, "walk", not_read)
    sent = [b"body"]
    for size in range(40, 240, 10):  # so that segments end within and between groups
        texts = [bytes([65 + number]) * size for number in range(4)]
        store.append_from(
            Prepared([put(texts[0])], [put(texts[1]), put(texts[2])], [put(texts[3])])
        )
        assert store.dispatch() == 4
        sent += texts
    assert bodies(store) == sent
    store.close()
    report = check_store(disk, ROOT)
    assert report.ok, report.lines()


def test_what_others_made_records_of_is_read_from_the_log_when_it_is_confirmed_in_part(
    disk: SimDisk,
) -> None:
    store = open_store(disk, segment_bytes=65536)
    store.positions.begin_acknowledged(LogOffset(0))
    store.append_from(Prepared([put(b"one")], [put(b"two")]))
    size = store.positions.written // 2
    store.positions.acknowledged = LogOffset(size)
    assert store.dispatch() == 1
    assert bodies(store) == [b"one"]
    store.positions.acknowledged = LogOffset(2 * size)
    assert store.dispatch() == 1
    assert bodies(store) == [b"one", b"two"]


def test_an_empty_append_changes_nothing(disk: SimDisk) -> None:
    store = open_store(disk)
    assert store.append([]) == []
    assert store.positions.written == 0


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"topic": "../x"}, InvalidName),
        ({"queue_id": -1}, InvalidName),
        ({"queue_id": 1 << 31}, RecordError),
        ({"flag": 1 << 31}, RecordError),
        ({"body": bytes(2000)}, StoreError),
        ({"properties": b"x" * 32767}, RecordError),
    ],
)
def test_what_cannot_be_stored_leaves_no_trace(
    disk: SimDisk, wrong: dict[str, Any], error: type[Exception]
) -> None:
    store = open_store(disk)
    with pytest.raises(error):
        store.append([[put()], [put(**wrong)]])
    assert (store.positions.written, store.state) == (0, StoreState.RUNNING)
    ((placed,),) = store.append([[put()]])
    assert (placed.log_offset, placed.queue_offset) == (0, 0)


# Failure


@pytest.mark.parametrize("operation", ["preallocate", "write"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_refuses_with_the_reason_and_ends_by_itself(
    disk: SimDisk, operation: str, number: int
) -> None:
    store = open_store(disk)
    store.append([[put(bytes(700))]])
    disk.fail(at=1, only=(operation,), errno=number)
    with pytest.raises(StoreFull) as caught:
        store.append([[put(bytes(700))]])
    assert caught.value.needed > 700
    assert caught.value.path.parent == LOG
    assert store.state is StoreState.FULL
    ((placed,),) = store.append([[put(b"again")]])
    assert (store.state, placed.queue_offset) == (StoreState.RUNNING, 1)
    store.dispatch()
    assert bodies(store)[1:] == [b"again"]


def test_what_was_refused_for_want_of_room_never_appears(disk: SimDisk) -> None:
    store = open_store(disk)
    store.append([[put(b"kept")]])
    disk.fail(at=1, only=("preallocate",), errno=errno.ENOSPC)
    with pytest.raises(StoreFull):
        store.append([[put(b"refused")], [put(bytes(800))]])
    disk.kill()
    assert bodies(open_store(disk)) == [b"kept"]


@pytest.mark.parametrize("operation", ["preallocate", "write", "sync", "rename"])
def test_any_other_error_ends_writing_until_the_store_is_reopened(
    disk: SimDisk, operation: str
) -> None:
    store = open_store(disk, flush=FlushMode.SYNC)
    store.append([[put(b"kept")]])
    store.flush()
    store.dispatch()
    told: list[StoreError | None] = []
    store.append([[put(b"waiting")]])
    store.when_durable(store.positions.written, told.append)
    disk.fail(at=1, only=(operation,), errno=errno.EIO)
    with pytest.raises(StoreFailed, match="Input/output error"):
        store.append([[put(bytes(800))]])
    disk.heal()
    assert store.state is StoreState.FAILED
    assert [type(error) for error in told] == [StoreFailed]
    with pytest.raises(StoreFailed, match="Input/output error"):
        store.append([[put()]])
    operations = disk.operations
    assert not store.flush()
    assert disk.operations == operations
    assert bodies(store) == [b"kept"]
    store.close()
    again = open_store(disk, flush=FlushMode.SYNC)
    assert again.state is StoreState.RUNNING
    assert bodies(again)[0] == b"kept"
    again.append([[put()]])


def test_room_that_ran_out_within_a_record_is_a_failure(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(disk)
    store.append([[put(b"kept")]])
    append = store.commit_log.append

    def cut(chunks: list[tuple[int, bytes]]) -> None:
        append([(offset, data[:10]) for offset, data in chunks])
        disk.fail(at=1, only=("write",), errno=errno.ENOSPC)
        try:
            append([(offset + 10, data[10:]) for offset, data in chunks])
        except StoreError as error:
            error.written += 10  # type: ignore[attr-defined]
            raise

    monkeypatch.setattr(store.commit_log, "append", cut)
    with pytest.raises(StoreFailed):
        store.append([[put(b"cut")]])
    disk.kill()
    assert bodies(open_store(disk)) == [b"kept"]


def test_out_of_memory_is_a_failure(disk: SimDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(disk)

    def none_left(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(store._appender, "encode", none_left)
    with pytest.raises(StoreFailed, match="out of memory"):
        store.append([[put()]])
    assert store.state is StoreState.FAILED


def test_queues_without_room_hold_appends_back_and_lose_nothing(disk: SimDisk) -> None:
    store = open_store(disk)
    store.append([[put(b"one")]])
    disk.fail(at=1, only=("write",), errno=errno.ENOSPC, times=3)
    store.derived.queues.flush_pending = _full(store, disk)  # type: ignore[method-assign]
    store.derived.dispatcher._deferred = False
    assert store.dispatch() == 0
    assert store.state is StoreState.FULL
    with pytest.raises(StoreFull):
        store.append([[put(b"two")]])
    disk.heal()
    del store.derived.queues.flush_pending
    store.append([[put(b"two")]])
    store.dispatch()
    assert bodies(store) == [b"one", b"two"]


def _full(store: MessageStore, disk: SimDisk) -> Any:
    flush = type(store.derived.queues).flush_pending

    def flush_pending() -> None:
        disk.fail(at=1, only=("create", "write"), errno=errno.ENOSPC)
        flush(store.derived.queues)

    return flush_pending


# Reading by place


def test_a_clean_stop_leaves_what_rocketmq_expects(disk: SimDisk) -> None:
    store = open_store(disk)
    store.append([[put(bytes(600))] for _ in range(5)])
    assert "abort" in disk.names(ROOT)
    store.close()
    assert "abort" not in disk.names(ROOT)
    assert {len(disk.content(LOG / name)) for name in disk.names(LOG)} == {1024}
    end = store.positions.written
    assert not disk.content(LOG / disk.names(LOG)[-1])[end % 1024 :].strip(b"\x00")
    found = read_checkpoint(disk, ROOT / "checkpoint")
    assert found.own is not None
    assert (found.own.clean, found.own.confirmed, found.own.derived) == (True, end, end)
    assert found.log_ms == found.queues_ms == found.index_ms > 0
    with pytest.raises(StoreClosed):
        store.append([[put()]])


def test_a_clean_stop_survives_a_power_cut(disk: SimDisk) -> None:
    store = open_store(disk)
    store.append([[put(b"%d" % n)] for n in range(30)])
    store.close()
    disk.crash()
    assert bodies(open_store(disk)) == [b"%d" % n for n in range(30)]


def test_a_stop_that_could_not_sync_says_so_and_leaves_the_mark(disk: SimDisk) -> None:
    store = open_store(disk)
    store.append([[put()]])
    disk.fail(at=1, only=("sync",))
    with pytest.raises(StoreFailed):
        store.close()
    assert "abort" in disk.names(ROOT)
    assert store.state is StoreState.CLOSED


def test_deleting_leaves_what_is_not_durable(disk: SimDisk) -> None:
    store = open_store(disk)
    for number in range(9):
        store.append([[put(b"%d" % number + bytes(300))]])
    store.dispatch()
    assert store.delete_before(LogOffset(1 << 40)) == 0
    store.flush()
    assert store.delete_before(LogOffset(1 << 40)) == 4
    assert store.first_offset == 4096
    assert [body[:1] for body in bodies(store)] == [b"8"]
    disk.crash()
    again = open_store(disk)
    assert (again.min_offset("t", 0), again.max_offset("t", 0)) == (8, 9)
    ((placed,),) = again.append([[put()]])
    assert placed.queue_offset == 9


# With threads


@pytest.fixture(params=[FlushMode.SYNC, FlushMode.ASYNC])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MessageStore]:
    config = StoreConfig.embedded(
        tmp_path / "store", flush=request.param, segment_bytes=65536, flush_interval_ms=5
    )
    store = MessageStore.open(config, disk=Disk(), clock=SystemClock(), store_host=HOST)
    yield store
    store.close()


def test_threads_sync_and_prepare_while_others_append(real: MessageStore) -> None:
    for number in range(100):
        real.append([[put(b"%d" % number + bytes(2000))]])
        done = threading.Event()
        real.when_durable(real.positions.written, lambda error, done=done: done.set())
        if number % 10 == 0:
            assert done.wait(PATIENCE_S)
            assert real.positions.durable >= real.positions.written
    assert done.wait(PATIENCE_S)
    real.dispatch()
    assert real.max_offset("t", 0) == 100
    real.close()
    again = MessageStore.open(real.config, disk=Disk(), clock=SystemClock(), store_host=HOST)
    assert [body[:-2000] for body in bodies(again)] == [b"%d" % n for n in range(100)]
    again.close()


class Ticking(ManualClock):
    """A clock that goes on by a millisecond each time it is read."""

    def __init__(self) -> None:
        super().__init__()
        self._reads = 0

    def monotonic_ms(self) -> int:
        self._reads += 1
        return self._reads


def test_a_round_of_syncs_that_falls_due_in_between_waits_for_the_next_dispatch() -> None:
    config = StoreConfig.embedded(ROOT, flush=FlushMode.ASYNC)
    store = MessageStore.open(
        config, disk=SimDisk(), clock=Ticking(), store_host=HOST, threads=False
    )
    # Far more readings of the clock than a round lasts: one falls on the very edge.
    for _ in range(7000):
        store.append([[put(b"m")]])
        store.dispatch()
        assert store.derived.synced_to <= store.positions.durable
    assert store.derived.synced_to > 0
    store.close()
