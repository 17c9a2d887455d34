"""Small stores on a simulated disk: a few messages fill several files of each kind."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.derived.dispatcher import OnArrival
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.promises import body_of, key_of

ROOT: Final = Path("/store")
SEGMENT_BYTES: Final = 4096
HOST: Final = bytes((127, 0, 0, 1, 0, 0, 42, 159))
TOPICS: Final = ("orders", "a-longer-topic-name-%s" % ("x" * 110))
_START_MS: Final = 1_700_000_000_000


def small_store(root: Path, flush: FlushMode, **changes: object) -> StoreConfig:
    """Settings under which a few dozen messages fill several files of each kind."""
    sizes: dict[str, object] = {
        "segment_bytes": 4096,
        "queue_file_bytes": 200,
        "index_slots": 8,
        "index_entries": 32,
        "max_open_files": 4,
        "timer_log_bytes": 4096,
    }
    return StoreConfig(root=root, flush=flush, **{**sizes, **changes})  # type: ignore[arg-type]


def message(number: int, size: int | None = None) -> Put:
    """The message of this number, which is always the same; its size can be chosen."""
    chance = random.Random(number)  # noqa: S311 - the same message every time
    usual = chance.choice((0, 1, 20, 100, 300, 700))
    size = usual if size is None else size
    topic = chance.choice(TOPICS)
    born_v6 = chance.random() < 0.2
    return Put(
        topic=topic,
        queue_id=chance.randrange(2),
        body=body_of(number, chance.randbytes(size)),
        properties=f"KEYS\x01{key_of(number)}\x02TAGS\x01tag-{number % 3}\x02".encode(),
        flag=number & 0x7FFFFFFF,
        sys_flag=1 << 4 if born_v6 else 0,
        born_ms=_START_MS + number,
        born_host=bytes(15) + b"\x01" + bytes(4) if born_v6 else HOST,
    )


class StepClock:
    """Time that passes by being asked for, so that it needs nobody to turn it."""

    def __init__(self) -> None:
        self._passed_ms = 0

    def now_ms(self) -> int:
        self._passed_ms += 1
        return _START_MS + self._passed_ms

    def monotonic_ms(self) -> int:
        self._passed_ms += 1
        return self._passed_ms

    async def sleep(self, duration_ms: int) -> None:
        """Let the time pass at once."""
        self.leap(duration_ms)

    def leap(self, duration_ms: int) -> None:
        """Let the time pass at once."""
        self._passed_ms += duration_ms


HOST_V6 = bytes(15) + b"\x01" + bytes(4)
LONG_TOPIC = "long-" + "x" * 130


def put(body: bytes = b"a body of some bytes", **changes: Any) -> Put:
    """A message; whatever matters to a test is named there."""
    values: dict[str, Any] = {
        "topic": "plain",
        "queue_id": 0,
        "body": body,
        "properties": b"KEYS\x01some-key\x02TAGS\x01tag\x02",
        "flag": 7,
        "sys_flag": 0,
        "born_ms": 1_700_000_000_123,
        "born_host": HOST,
    }
    return Put(**{**values, **changes})


@dataclass(frozen=True)
class Kind:
    """One kind of record: a group that writes it, and the store it is written to."""

    group: list[Put]
    store_host: bytes = HOST
    config: dict[str, object] = field(default_factory=dict)


KINDS: dict[str, Kind] = {
    "plain": Kind([put()]),
    "without a body": Kind([put(b"")]),
    "without properties": Kind([put(properties=b"")]),
    "long topic": Kind([put(topic=LONG_TOPIC)]),
    "IPv6": Kind([put(born_host=HOST_V6)], store_host=HOST_V6),
    "without checksum": Kind([put()], config={"checksum": False}),
    "prepared": Kind([put(sys_flag=4)]),
    "committed": Kind([put(sys_flag=8, prepared_offset=77)]),
    "rolled back": Kind([put(sys_flag=12, prepared_offset=77)]),
    "delayed": Kind([put(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, properties=b"DELAY\x013\x02")]),
    "timed": Kind(
        [
            put(
                topic="rmq_sys_wheel_timer",
                properties=b"TIMER_OUT_MS\x011700000300000\x02REAL_TOPIC\x01plain\x02REAL_QID\x010\x02",
            )
        ]
    ),
    "group": Kind([put(b"first of three"), put(b"second", queue_id=1), put(b"third")]),
}


def open_store(
    disk: SimDisk,
    kind: Kind | None = None,
    *,
    root: Path = ROOT,
    flush: FlushMode = FlushMode.ASYNC,
    clock: StepClock | None = None,
    on_arrival: OnArrival | None = None,
    replicated: bool = False,
    **changes: object,
) -> MessageStore:
    """Open a store for one kind of record; what is not named is as in `small_store`."""
    kind = kind or KINDS["plain"]
    config: StoreConfig = small_store(root, flush, **{**kind.config, **changes})
    return MessageStore.open(
        config,
        disk=disk,
        clock=clock or StepClock(),
        store_host=kind.store_host,
        on_arrival=on_arrival,
        threads=False,
        replicated=replicated,
    )


@dataclass
class Filled:
    """A store that holds a few records, each as it was written."""

    kind: Kind
    disk: SimDisk
    groups: list[list[Appended]]
    records: dict[int, bytes]

    @property
    def offsets(self) -> list[int]:
        return sorted(self.records)

    @property
    def end(self) -> int:
        last = self.offsets[-1]
        return last + len(self.records[last])

    def path(self, offset: int) -> Path:
        base = offset - offset % 4096
        return ROOT / "commitlog" / f"{base:020d}"

    def surviving(self, count: int) -> dict[int, bytes]:
        """The records of the first ``count`` groups."""
        kept = [place.log_offset for group in self.groups[:count] for place in group]
        return {at: self.records[at] for at in kept}


def fill(kind: Kind, groups: int = 3, *, flushed: int = 2, closed: bool = False) -> Filled:
    """Append groups, the first ``flushed`` of them durably; then the process dies, or closes."""
    disk = SimDisk()
    store = open_store(disk, kind)
    placed: list[list[Appended]] = []
    for number in range(groups):
        placed += store.append([kind.group])
        if number < flushed:
            store.flush()
    store.dispatch()
    records = {
        int(place.log_offset): store.record_at(place.log_offset)
        for group in placed
        for place in group
    }
    if closed:
        store.close()
    disk.kill()
    return Filled(kind, disk, placed, records)


def everything(store: MessageStore) -> dict[int, bytes]:
    """Every record that can be read by walking the queues, by its place in the log."""
    found = {}
    for topic, queue_id in store.queues():
        at, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        while at < end:
            result = store.read(topic, queue_id, QueueOffset(at), max_count=32)
            assert result.next_offset > at, (topic, queue_id, at, end, result.status)
            start = 0
            while start < len(result.records):
                size = int.from_bytes(result.records[start : start + 4], "big")
                record = result.records[start : start + size]
                found[int.from_bytes(record[28:36], "big")] = record
                start += size
            at = result.next_offset
    return found
