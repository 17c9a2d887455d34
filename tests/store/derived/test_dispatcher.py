from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.store.support.arrival_log import ArrivalLog

from rocketpipe.model.flags import Transaction
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record import checksum, hot
from rocketpipe.store.config import FlushMode, delays_ms
from rocketpipe.store.derived.derivation import Arrival
from rocketpipe.store.derived.dispatcher import Dispatcher
from rocketpipe.store.derived.repairs import Repairs
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.index.key_index import KeyIndex
from rocketpipe.store.log.commit_log import CommitLog, filler
from rocketpipe.store.queues import queue_files
from rocketpipe.store.queues.entries import BLANK_SIZE, QUEUE_ENTRY
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.state.positions import Positions
from rocketpipe.store.timers.wheel import TimerWheel
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
NOW_MS = 1_700_000_000_000
SEGMENT = 4096


class Store:
    """A log with records in it, and everything that follows from it."""

    def __init__(self, disk: SimDisk | None = None, *, deferred: bool = True) -> None:
        self.disk = disk or SimDisk()
        self.disk.make_directory(ROOT / "sums")
        self.log = CommitLog(self.disk, ROOT / "commitlog", SEGMENT)
        files = OpenFiles(self.disk, 4)
        self.queues = QueueSet(
            self.disk, files, ROOT / "consumequeue", ROOT / "sums" / "queues.json", 200
        )
        self.index = KeyIndex(
            self.disk,
            files,
            ROOT / "index",
            ROOT / "sums" / "index.json",
            slots=10,
            entries=40,
            clock=ManualClock(NOW_MS),
        )
        self.timer = TimerWheel(self.disk, files, ROOT / "timer")
        self.positions = Positions(FlushMode.ASYNC)
        self.arrivals = ArrivalLog()
        self.dispatcher = Dispatcher(
            self.log,
            self.positions,
            self.queues,
            self.index,
            self.timer,
            level_delays_ms=delays_ms("1s 5s 10s"),
            on_arrival=self.arrivals,
            deferred=deferred,
        )
        self.offsets: dict[tuple[str, int], int] = {}

    def put(
        self,
        topic: str = "orders",
        queue_id: int = 0,
        properties: bytes = b"",
        *,
        sys_flag: int = 0,
        body: bytes = b"hello",
        seal: bool = True,
    ) -> int:
        magic, head = hot.topic_head(topic.encode())
        host = bytes(8)
        if seal:
            properties = checksum.reserve(properties)
        queue_offset = self.offsets.get((topic, queue_id), 0)
        end = self.positions.written

        def encoded(at: int) -> bytes:
            record = hot.encode(
                *(magic, queue_id, 0, queue_offset, at, sys_flag, NOW_MS, host, NOW_MS + at, host),
                *(0, 0, body, head, properties),
            )
            return hot.seal(record) if seal else record

        (at,) = self.log.place(end, [len(encoded(0))])
        chunks = [] if at == end else [(int(end), filler(at - end))]
        record = encoded(at)
        self.log.make_room(end, at + len(record))
        self.log.append([*chunks, (at, record)])
        self.positions.written = LogOffset(at + len(record))
        if not sys_flag & int(Transaction.PREPARED):
            self.offsets[topic, queue_id] = queue_offset + 1
        return at

    def size_at(self, at: int) -> int:
        return int.from_bytes(self.log.read(LogOffset(at), 4), "big")

    def entries(self, topic: str, queue_id: int = 0) -> list[tuple[int, int, int]]:
        data = self.queues.entries(topic, queue_id, QueueOffset(0), 1000)
        return list(QUEUE_ENTRY.iter_unpack(data))

    def find(self, key: str, topic: str = "orders") -> list[LogOffset]:
        return list(self.index.find(topic, key))

    def reopened(self, *, clean: bool = False) -> Store:
        again = Store(self.disk)
        again.offsets = dict(self.offsets)
        end = self.positions.written
        first = again.log.first_offset
        start = min(
            again.queues.recover(first, end, first, clean=clean),
            again.index.recover(first, end, first, clean=clean),
            again.timer.recover(first, end, first),
        )
        again.positions.rewind(end, dispatched=start)
        return again


def test_a_message_is_in_its_queue_and_found_by_its_keys() -> None:
    store = Store()
    first = store.put(properties=b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01U1\x02")
    second = store.put(queue_id=3, properties=b"KEYS\x01k2\x02")
    assert store.dispatcher.behind_bytes == store.positions.written
    assert store.dispatcher.run() == 2
    assert store.dispatcher.behind_bytes == 0
    assert store.entries("orders", 0) == [(first, second - first, 2598919)]
    assert store.entries("orders", 3) == [(second, store.positions.written - second, 0)]
    assert store.find("k1") == store.find("U1") == [first]
    assert store.find("k2") == [second, first]


def test_arrivals_come_in_log_order_and_can_be_read_at_once() -> None:
    store = Store()
    seen = []

    class Reader:
        def tell(self, arrivals: Sequence[Arrival]) -> None:
            for topic, queue_id, offset, *_ in arrivals:
                is_there = offset < store.queues.max_offset(topic, queue_id)
                seen.append((queue_id, offset, is_there))

    store.dispatcher._on_arrival = Reader()
    for number in range(40):
        store.put(queue_id=number % 3)
    store.dispatcher.run()
    assert seen == [(n % 3, n // 3, True) for n in range(40)]


def test_an_arrival_has_all_that_a_waiting_reader_asks_for() -> None:
    store = Store()
    at = store.put(properties=b"TAGS\x01TagA\x02", seal=False)
    store.dispatcher.run()
    assert store.arrivals.arrived == [("orders", 0, 0, 2598919, NOW_MS + at, b"TAGS\x01TagA\x02")]


def test_a_reader_that_fails_does_not_stop_the_dispatcher() -> None:
    store = Store()

    class Failing:
        def tell(self, arrivals: Sequence[Arrival]) -> None:
            raise RuntimeError("no")

    store.dispatcher._on_arrival = Failing()
    store.put()
    store.put()
    assert store.dispatcher.run() == 2


@pytest.mark.parametrize(
    ("state", "queued", "indexed"),
    [
        (Transaction.NONE, True, True),
        (Transaction.PREPARED, False, True),
        (Transaction.COMMITTED, True, True),
        (Transaction.ROLLED_BACK, False, False),
    ],
)
def test_what_part_of_a_transaction_is_shown(
    state: Transaction, queued: bool, indexed: bool
) -> None:
    store = Store()
    at = store.put(properties=b"KEYS\x01k\x02", sys_flag=int(state))
    assert store.dispatcher.run() == 1
    assert len(store.entries("orders")) == len(store.arrivals.arrived) == queued
    assert store.find("k") == [at] * indexed


@pytest.mark.parametrize(
    ("level", "delay_ms"), [(b"1", 1000), (b"3", 10_000), (b"99", 10_000), (b"0", None)]
)
def test_an_entry_of_the_schedule_topic_has_its_due_time(
    level: bytes, delay_ms: int | None
) -> None:
    store = Store()
    at = store.put(SCHEDULE_TOPIC, 2, b"TAGS\x01TagA\x02DELAY\x01" + level + b"\x02")
    store.put("orders", 0, b"TAGS\x01TagA\x02DELAY\x01" + level + b"\x02")
    store.dispatcher.run()
    due = 2598919 if delay_ms is None else NOW_MS + at + delay_ms
    assert store.entries(SCHEDULE_TOPIC, 2)[0][2] == due
    assert store.entries("orders")[0][2] == 2598919


def test_nothing_beyond_the_confirmed_end_is_dispatched() -> None:
    store = Store()
    store.positions = Positions(FlushMode.SYNC)
    store.dispatcher._positions = store.positions
    first = store.put()
    store.put()
    assert store.dispatcher.run() == 0
    store.positions.durable = LogOffset((store.positions.written - first) // 2)
    assert store.dispatcher.run() == 1
    assert len(store.entries("orders")) == 1


def test_a_limit_ends_a_run_early_and_the_next_goes_on() -> None:
    store = Store()
    for _ in range(100):
        store.put(body=b"x" * 100)
    runs = 0
    while store.dispatcher.behind_bytes:
        assert store.dispatcher.run(limit_bytes=1000) >= 1
        runs += 1
    assert runs > 10
    assert len(store.entries("orders")) == 100


def test_records_are_followed_over_segments() -> None:
    store = Store()
    chance = random.Random(1)
    places = [store.put(body=bytes(chance.randrange(1500))) for _ in range(60)]
    assert places[-1] > 5 * SEGMENT
    store.dispatcher.run()
    assert [at for at, _, _ in store.entries("orders")] == places


def test_not_deferred_means_in_the_files_on_return() -> None:
    store = Store(deferred=False)
    store.put(properties=b"KEYS\x01k\x02")
    store.dispatcher.run()
    assert store.queues.pending_bytes == 0
    name = ROOT / "consumequeue/orders/0/00000000000000000000"
    assert store.disk.content(name)[8:12] != bytes(4)


@pytest.mark.parametrize("bad", range(5))
def test_a_damaged_record_stops_it_and_nothing_beyond_is_shown(bad: int) -> None:
    store = Store()
    places = [store.put(body=b"body %d" % number) for number in range(5)]
    segment = ROOT / "commitlog" / f"{0:020d}"
    store.disk.flip(segment, 8 * (places[bad] + 90))
    for _ in range(2):
        with pytest.raises(RecordCorrupt) as found:
            store.dispatcher.run()
        assert found.value.at == places[bad]
        assert store.positions.dispatched == places[bad]
        assert store.dispatcher.damage is not None
        assert [at for at, _, _ in store.entries("orders")] == places[:bad]
    store.dispatcher.skip_to(LogOffset(places[bad + 1] if bad < 4 else store.positions.written))
    assert store.dispatcher.run() == 4 - bad
    assert store.dispatcher.damage is None
    shown = [at for at, size, _ in store.entries("orders") if size < 1000]
    assert shown == places[:bad] + places[bad + 1 :]


def test_a_record_of_an_impossible_topic_stops_it() -> None:
    store = Store()
    store.put("../evil")
    with pytest.raises(RecordCorrupt, match="no queue is called"):
        store.dispatcher.run()


def test_a_failing_disk_stops_it_and_it_goes_on_where_it_was() -> None:
    for number in range(1, 30):
        store = Store(deferred=False)
        for n in range(50):
            store.put(queue_id=n % 4, properties=b"KEYS\x01k%d k\x02" % n)
        store.disk.fail(at=number, errno=errno.ENOSPC, only={"write", "create", "truncate"})
        try:
            store.dispatcher.run()
        except DiskError:
            store.disk.heal()
            store.dispatcher.run()
            store.queues.flush_pending()
            store.index.flush_pending()
        else:
            store.disk.heal()
        assert store.dispatcher.behind_bytes == 0
        assert len(store.find("k")) == 50
        assert sum(len(store.entries("orders", queue_id)) for queue_id in range(4)) == 50


@pytest.mark.parametrize("seed", range(30))
def test_after_any_crash_dispatching_again_gives_what_never_crashed(seed: int) -> None:
    chance = random.Random(seed)
    store = Store(SimDisk(seed))
    whole = Store()
    timer = b"TIMER_OUT_MS\x01%d\x02REAL_TOPIC\x01orders\x02UNIQ_KEY\x01u%d\x02"
    for turn in range(chance.randrange(2, 6)):
        for number in range(chance.randrange(1, 40)):
            match chance.randrange(8):
                case 0:
                    put = (TIMER_TOPIC, 0, timer % (NOW_MS + 5000, turn * 100 + number))
                case 1:
                    delivered = timer % (NOW_MS + 5000, turn * 100 + chance.randrange(40))
                    put = ("orders", 1, delivered + b"TIMER_DEQUEUE_MS\x011\x02")
                case _:
                    keys = b"KEYS\x01k%d all\x02" % chance.randrange(5)
                    put = ("orders", chance.randrange(3), keys)
            store.put(*put)
            whole.put(*put)
            if chance.randrange(10) == 0:
                store.dispatcher.run()
            match chance.randrange(25):
                case 0:
                    store.queues.sync()
                case 1:
                    store.queues.sync(limit=1)
                case 2:
                    store.index.sync()
                case 3:
                    store.timer.sync()
        store.log.sync(0, store.positions.written)
        if chance.randrange(2):
            store.disk.crash()
        else:
            store.disk.kill()
        store = store.reopened()
    store.dispatcher.run()
    whole.dispatcher.run()
    for queue in [("orders", 0), ("orders", 1), ("orders", 2), (TIMER_TOPIC, 0)]:
        assert store.entries(*queue) == whole.entries(*queue)
    for key in ("k0", "k1", "k2", "k3", "k4", "all"):
        assert store.find(key) == whole.find(key)
    assert list(store.timer.pending(0, 1 << 60)) == list(whole.timer.pending(0, 1 << 60))


def test_a_damaged_queue_that_it_comes_across_is_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_files, "CHECKED_AT_ONCE_BYTES", 0)
    store = Store()
    for number in range(60):
        store.put(queue_id=number % 2, properties=b"KEYS\x01k\x02")
    store.dispatcher.run()
    before = [store.entries("orders", queue_id) for queue_id in range(2)]
    store.queues.sync()
    # The index was not synced: everything is dispatched again, and compared with what is there.
    store.disk.flip(ROOT / "consumequeue/orders/1" / f"{200:020d}", 8 * 15)
    again = store.reopened()
    Repairs(again.log, again.positions, again.queues, again.index, again.dispatcher)
    assert again.positions.dispatched == 0
    assert again.dispatcher.run() == 60
    assert [again.entries("orders", queue_id) for queue_id in range(2)] == before
    assert again.find("k") == store.find("k")


def test_the_index_can_be_rebuilt_in_parts_while_more_is_dispatched() -> None:
    store = Store()
    for number in range(60):
        store.put(properties=b"KEYS\x01k%d k\x02" % number)
    store.dispatcher.run()
    before = store.find("k")
    store.index.flush_pending()
    damaged = min(path for path in store.disk.files() if path.parent == ROOT / "index")
    store.index.rebuilding = True
    store.index.drop_from(damaged, LogOffset(0))
    assert store.find("k") == []
    assert not store.dispatcher.index_again(limit_bytes=1000)
    some = store.find("k")
    assert 0 < len(some) < 60
    late = store.put(properties=b"KEYS\x01k\x02")
    store.dispatcher.run()
    assert store.find("k") == some
    while not store.dispatcher.index_again(limit_bytes=1000):
        pass
    store.index.rebuilding = False
    assert store.find("k") == [late, *before]


def test_a_damaged_record_is_passed_over_once_a_whole_one_is_behind_it() -> None:
    store = Store()
    store.dispatcher.damaged.skip = True
    places = [store.put() for _ in range(3)]
    store.disk.flip(ROOT / "commitlog" / f"{0:020d}", 8 * (places[2] + 60))
    with pytest.raises(RecordCorrupt):
        store.dispatcher.run()
    assert store.positions.dispatched == places[2]
    places.append(store.put())
    assert store.dispatcher.run() == 1
    assert store.dispatcher.damaged.places()[0][0] == places[2]
    kept = [entry[0] for entry in store.entries("orders") if entry[1] != BLANK_SIZE]
    assert kept == [*places[:2], places[3]]
    assert store.queues.next_offset("orders", 0) == 4


def test_what_was_appended_is_dispatched_as_if_it_were_read_from_the_log() -> None:
    chance = random.Random(7)
    read, told = Store(), Store()
    for number in range(120):
        topic = chance.choice(["orders", "payments", SCHEDULE_TOPIC])
        names = [b"TAGS\x01TagA\x02", b"KEYS\x01a b\x02", b"UNIQ_KEY\x01%d\x02" % number, b""]
        properties = b"".join(chance.sample(names, 2))
        flags = int(chance.choice(list(Transaction)))
        start = told.positions.written
        for store in (read, told):
            at = store.put(topic, number % 3, properties, sys_flag=flags)
        known = told.dispatcher._known(told.log.read(LogOffset(at), told.size_at(at)), at)
        told.dispatcher.fresh.add(start, told.positions.written, [[known]])
        if number % 7 == 0:
            for store in (read, told):
                store.dispatcher.run()
    for store in (read, told):
        store.dispatcher.run()
        store.queues.sync()
        store.index.sync()
    assert told.arrivals.arrived == read.arrivals.arrived
    assert {path: told.disk.content(path) for path in told.disk.files()} == {
        path: read.disk.content(path) for path in read.disk.files()
    }


def test_what_was_appended_is_not_read_again() -> None:
    store = Store()
    at = LogOffset(store.put(properties=b"KEYS\x01k\x02"))
    known = store.dispatcher._known(store.log.read(at, store.size_at(at)), at)
    store.dispatcher.fresh.add(0, store.positions.written, [[known]])
    store.disk.flip(ROOT / "commitlog" / f"{0:020d}", 8 * 60)
    assert store.dispatcher.run() == 1
    assert store.find("k") == [at]


def test_a_run_that_failed_half_way_leaves_nothing_twice() -> None:
    for failing in range(1, 60):
        store = Store()
        # Three files of the index, and queues of several files.
        offsets = [store.put(properties=b"KEYS\x01one two\x02") for _ in range(50)]
        store.disk.fail(at=failing, errno=errno.ENOSPC, only=("create", "write", "truncate"))
        try:
            store.dispatcher.run()
        except DiskError:
            store.dispatcher.run()
        else:
            break
        assert store.find("one") == store.find("two") == offsets[::-1], failing
        assert [entry[0] for entry in store.entries("orders")] == offsets
    else:
        pytest.fail("no run was without a failure")


def no_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(*_: object, **__: object) -> None:
        raise AssertionError("the log is read")

    monkeypatch.setattr(store.log, "walk", walk)


def log_of(store: Store) -> bytes:
    return store.log.read(LogOffset(0), store.positions.written)


def test_what_was_taken_in_is_not_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    places = [store.put(properties=b"KEYS\x01k1\x02"), store.put("others"), store.put()]
    store.dispatcher.took_in(log_of(store), 0)
    no_reads(store, monkeypatch)
    assert store.dispatcher.run() == 3
    assert [at for at, *_ in store.entries("orders")] == [places[0], places[2]]
    assert [at for at, *_ in store.entries("others")] == [places[1]]
    assert store.find("k1") == [places[0]]
    behind = store.put("others")
    store.dispatcher.took_in(log_of(store)[behind:], behind)
    assert store.dispatcher.run() == 1
    assert [at for at, *_ in store.entries("others")] == [places[1], behind]


def test_what_was_taken_in_and_is_unusual_is_read_from_the_log() -> None:
    store = Store()
    places = [store.put(), store.put(seal=False), store.put(), store.put(seal=False)]
    log = log_of(store)
    store.dispatcher.took_in(log[: places[1]], 0)
    store.dispatcher.took_in(log[places[1] : places[2]], places[1])
    store.dispatcher.took_in(log[places[2] :], places[2])
    assert len(store.dispatcher.fresh) == 2
    assert store.dispatcher.run() == 4
    assert [at for at, *_ in store.entries("orders")] == places


def test_a_name_that_no_queue_may_have_is_found_in_what_was_taken_in_too() -> None:
    store = Store()
    store.put()
    bad = store.put("../orders")
    store.dispatcher.took_in(log_of(store), 0)
    with pytest.raises(RecordCorrupt, match=rf"{bad}.*no queue is called"):
        store.dispatcher.run()
    assert store.positions.dispatched == bad
