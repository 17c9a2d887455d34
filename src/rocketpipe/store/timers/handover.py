"""What an Apache broker needs to take over the messages that wait for their time.

Its wheel is made anew from its timer log when it starts, so the log and a position are enough:

    config/timercheck   seven 8-byte numbers, then zeros up to 4096 bytes: time up to which
                        everything was delivered, ms; bytes of the timer log; offset in the timer
                        queue behind what the timer log has; the same of the master; then state
                        version, time and counter of the data
    timerlog/           files of 100 MiB, named for their first byte, with an entry for each message

An entry of the timer log:

     0  4  its size, 52
     4  8  position of the entry before it that is due in the same second, −1 for none
    12  4  1, and 2 more if it is due so late that it has to be put again on the way
    16  8  when it was written, ms, rounded down to a second
    24  4  how much later it is due, ms
    28  8  offset of the record in the commit log
    36  4  size of the record
    40  4  hash of its real topic
    44  8  zeros

Where no entry fits, a file ends in the bytes that remain (4), zeros (8) and the blank magic (4).

Entries of one second are delivered in their order, which is that of their moments. The broker reads
the timer queue on behind the message of the last entry, so that is the last of the timer topic: it
gets an entry in a second that has passed, where nobody looks again, beside its own if it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from itertools import groupby, islice
from pathlib import Path
from struct import Struct
from typing import Final

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import UNFINISHED, StoreLayout, file_name
from rocketpipe.store.queues.entries import BLANK_SIZE, QUEUE_ENTRY
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.timers.entry import PRECISION_MS, Timed

CHECK: Final = Struct(">7q")
CHECK_BYTES: Final = 4096
ENTRY: Final = Struct(">iqiqiqiiq")
BLANK: Final = Struct(">iqi")
BLANK_MAGIC: Final = (0xBBCCDDEE ^ (1880681586 + 8)) - (1 << 32)
LOG_FILE_BYTES: Final = 104_857_600
#: What is due later than this is put again on the way: Apache's wheel has so many seconds.
ROLL_WINDOW_MS: Final = 172_800 * PRECISION_MS

_DEFAULT, _ROLL = 1, 2
#: So many entries are written at a time.
_AT_ONCE: Final = 4096


@dataclass(frozen=True, slots=True)
class TimerCheck:
    """The numbers in ``timercheck``."""

    last_read_ms: int = 0
    log_bytes: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    changed_ms: int = 0
    counter: int = 0


def read_timer_check(disk: Disk, path: Path) -> TimerCheck | None:
    """Read the position that a broker left; ``None`` if there is none that is whole.

    Raises:
        DiskError: The file cannot be read.
    """
    if path.parent.name not in disk.names(path.parent.parent):
        return None
    if path.name not in disk.names(path.parent):
        return None
    with disk.open(path, writable=False) as file:
        data = file.read(CHECK.size, 0)
    return TimerCheck(*CHECK.unpack(data)) if len(data) == CHECK.size else None


@dataclass(frozen=True, slots=True)
class LastTimed:
    """The last record of the timer topic, delivered or not."""

    log_offset: LogOffset
    size: int
    queue_offset: QueueOffset


def last_timed(queues: QueueSet) -> LastTimed | None:
    """Find the last record of the timer topic; ``None`` if there never was one.

    Raises:
        QueueDamaged: The timer queue has to be written again first.
        DiskError: The timer queue cannot be read.
    """
    end = queues.max_offset(TIMER_TOPIC, 0)
    if end == 0:
        return None
    last = QueueOffset(end - 1)
    for log_offset, size, _ in QUEUE_ENTRY.iter_unpack(queues.entries(TIMER_TOPIC, 0, last, 1)):
        if size != BLANK_SIZE:
            return LastTimed(LogOffset(log_offset), size, last)
    return None


def hand_over(
    disk: Disk,
    layout: StoreLayout,
    pending: Iterable[Timed],
    last: LastTimed | None,
    now_ms: int,
    log_file_bytes: int = LOG_FILE_BYTES,
) -> None:
    """Leave everything so that an Apache broker delivers what waits, once, and nothing again.

    To be called when nothing more will be delivered. ``pending`` has the first due first, and is
    written as it comes: it need not be in memory. ``last`` is ``None`` if there never was a
    message in the timer topic.

    Raises:
        DiskError: It could not be written; an Apache broker may deliver some messages again.
    """
    written_ms = now_ms // PRECISION_MS * PRECISION_MS
    timer_log = layout.root / "timerlog"
    _remove_old(disk, layout, timer_log)
    entries = _linked(_entries(pending, last, written_ms), log_file_bytes)
    total = 0
    for number, portions in groupby(entries, key=lambda entry: entry[0] // log_file_bytes):
        if not number:
            disk.make_directory(timer_log)
        base = number * log_file_bytes
        with disk.create(timer_log / file_name(base)) as file:
            file.truncate(log_file_bytes)
            while some := list(islice(portions, _AT_ONCE)):
                data = b"".join(entry for _, entry in some)
                file.write(data, some[0][0] - base)
                total = some[0][0] + len(data)
            file.sync()
    if total:
        disk.sync_directory(timer_log)
    end = last.queue_offset + 1 if last else 0
    _write_check(disk, layout, TimerCheck(written_ms, total, end, end, 0, now_ms, 1))


def _entries(
    pending: Iterable[Timed], last: LastTimed | None, written_ms: int
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Give second, kind, delay, log offset, size and hash of each entry, in order."""
    for timed in pending:
        due_ms, kind = max(timed.out_ms, written_ms), _DEFAULT
        beyond_ms = due_ms - written_ms - ROLL_WINDOW_MS
        if beyond_ms >= 0:
            kind |= _ROLL
            # As Apache does: half way, if little would be left for the second leg.
            part = 2 if beyond_ms < ROLL_WINDOW_MS // 3 else 1
            due_ms = written_ms + ROLL_WINDOW_MS // part
        yield due_ms, kind, due_ms - written_ms, timed.log_offset, timed.size, timed.topic
    if last is not None:
        passed = (written_ms - PRECISION_MS, _DEFAULT, -PRECISION_MS)
        yield (*passed, last.log_offset, last.size, 0)


def _linked(
    entries: Iterable[tuple[int, int, int, int, int, int]], file_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """Give the position in the timer log and the bytes of each entry, and of what ends a file."""
    newest: dict[int, int] = {}
    at = 0
    for due_ms, kind, delay_ms, log_offset, size, topic_hash in entries:
        left = file_bytes - at % file_bytes
        if left < ENTRY.size + BLANK.size:
            yield at, BLANK.pack(left, 0, BLANK_MAGIC)
            at += left
        written_ms = due_ms - delay_ms
        before = newest.get(due_ms, -1)
        yield (
            at,
            ENTRY.pack(
                *(ENTRY.size, before, kind, written_ms, delay_ms, log_offset, size, topic_hash, 0)
            ),
        )
        newest[due_ms] = at
        at += ENTRY.size


def _remove_old(disk: Disk, layout: StoreLayout, timer_log: Path) -> None:
    names = disk.names(layout.root)
    if "timerwheel" in names:
        disk.remove(layout.root / "timerwheel")
    if timer_log.name in names:
        for name in disk.names(timer_log):
            disk.remove(timer_log / name)
        disk.sync_directory(timer_log)
    disk.sync_directory(layout.root)


def _write_check(disk: Disk, layout: StoreLayout, check: TimerCheck) -> None:
    disk.make_directory(layout.config)
    path = layout.timer_check
    unfinished = path.with_name(path.name + UNFINISHED)
    if unfinished.name in disk.names(layout.config):
        disk.remove(unfinished)
    with disk.create(unfinished) as file:
        file.write(CHECK.pack(*astuple(check)).ljust(CHECK_BYTES, b"\0"), 0)
        file.sync()
    disk.rename(unfinished, path)
    disk.sync_directory(layout.config)
