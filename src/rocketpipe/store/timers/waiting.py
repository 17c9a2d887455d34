"""Messages that wait, the next due first: however many they are, few of them are in memory.

Those that came last are, and those that are handed out. The others are in runs (`run`). What
is next is found by looking at the first entry of each run and the first of those in memory. That a
message waits no longer is an entry too, and meets the one that it speaks of when both are the
next, or when their runs are merged: so nothing has to be looked for.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush, merge
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Final

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.background_sync import PendingSync
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.timers.entry import (
    ENTRY_BYTES,
    FIRST_AT,
    KEY,
    KIND_AT,
    PLACE,
    PLACE_BYTES,
    RECORD,
    STORED,
    Timed,
    forgotten,
    record_bytes,
)
from rocketpipe.store.timers.files import INLINE, Saved, TimerFiles
from rocketpipe.store.timers.run import TimerRun

log = logging.getLogger(__name__)

#: So many that came last are in memory before they become a run.
FRESH: Final = 4096
#: So many are handed out at a time at most.
MOST_OUT: Final = 1024
#: So many places are looked at when messages are handed out, before others have a turn.
_MOST_PASSED: Final = 4096
#: So many entries are looked through before others have a turn.
_SLICE: Final = 4096
#: How long a merge leaves the processor to others after each stretch.
_BREATH_S: Final = 0.001
EVER: Final = b"\xff" * PLACE_BYTES


class WaitingMessages:
    """Messages by the time at which they are due.

    `due` hands a message out; it stays noted until the log shows that it was delivered, or `done`
    says so, and comes again after a restart if neither happened.
    """

    def __init__(self, disk: Disk, files: OpenFiles, directory: Path) -> None:
        """``files`` may be shared with others of the same thread."""
        self._files = TimerFiles(disk, files, directory)
        #: What came last, by place; and the same in order, with what is gone from it.
        self._fresh: dict[bytes, bytes] = {}
        self._heap: list[bytes] = []
        #: The first entry of each run that was not handed out.
        self._heads: list[tuple[bytes, int]] = []
        self._heads_of = -1
        self._out: dict[bytes, bytes] = {}
        self._count = 0
        #: How many were put off, at least: they are not found by their second.
        self._moved = 0
        self._lost = 0
        #: No record of what waits says that it was stored later; None if that is not known.
        self._latest_ms: int | None = 0
        self._log_first = LogOffset(0)
        self._noted_to = 0
        self._synced_to = LogOffset(0)
        #: What every record before it says is noted here. The dispatcher moves it.
        self.holds_to = LogOffset(0)

    def __len__(self) -> int:
        # What was delivered and is copied on, as at a retry, counts as one less until it is met.
        return max(0, self._count)

    @property
    def synced_to(self) -> LogOffset:
        """Up to where the saved state knows the log."""
        return self._synced_to

    @property
    def in_memory(self) -> int:
        """How many messages are in memory."""
        return len(self._heap) + len(self._out)

    def _add(self, timed: Timed, *, first: bool) -> None:
        """Have a message wait; ``first`` unless it may be known by an older record."""
        if not first:
            if timed.place in self._out:
                self._out[timed.place] = timed.entry()
                return
            older = self._deciding(timed.place)
            if older is None and timed.origin >= self._log_first:
                return  # it was here, and waits no longer
            if older is not None and not older[KIND_AT]:
                return
            self._count -= older is not None
            fresh = self._fresh.get(timed.place)
            # If the older one is in no run, this one takes its place.
            first = older is None if fresh is None else bool(fresh[FIRST_AT])
        self._count += 1
        self._moved += timed.is_put_off
        if self._latest_ms is not None:
            self._latest_ms = max(self._latest_ms, timed.stored_ms)
        self._put_and_settle(timed.entry(first=first))

    def _put(self, entry: bytes) -> None:
        self._fresh[entry[:PLACE_BYTES]] = entry
        heappush(self._heap, entry)

    def _put_and_settle(self, entry: bytes) -> None:
        self._put(entry)
        if len(self._heap) >= FRESH:
            self._settle()

    def _forget(self, place: bytes, key: int) -> None:
        """Have a message wait no longer, whether it is here or was handed out."""
        out = self._out.get(place)
        if out is not None:
            if out[KEY] == key.to_bytes(8, "big"):
                self._drop_out(place)
            return
        fresh = self._fresh.get(place)
        if fresh is not None and (not fresh[KIND_AT] or fresh[KEY] != key.to_bytes(8, "big")):
            return
        self._count -= 1
        if fresh is not None and fresh[FIRST_AT]:
            del self._fresh[place]
        else:
            self._put_and_settle(forgotten(place, key))

    def _out_now(self) -> Iterator[Timed]:
        return map(Timed.of, self._out.values())

    def _drop_out(self, place: bytes) -> None:
        if self._out.pop(place, None) is not None:
            self._count -= 1

    # What is handed out

    def is_due(self, now_ms: int) -> bool:
        """Whether it is worth to ask `due`: something is due, and not too much is handed out."""
        head = self._head()
        return head is not None and _at_ms(head) <= now_ms and len(self._out) < MOST_OUT

    def due(self, now_ms: int, limit: int) -> list[Timed]:
        """Hand out at most ``limit`` messages that are due, the longest overdue first.

        None is handed out twice before `give_back`. If many were taken back there may be none,
        though `is_due` says so again.

        Raises:
            DiskError: What waits in memory cannot be written, or the rest not be read.
        """
        found: list[Timed] = []
        if len(self._heap) >= FRESH:
            self._settle()
        for _ in range(_MOST_PASSED):
            if len(found) >= limit or not self.is_due(now_ms):
                break
            entry = self._take()
            if entry is not None:
                self._out[entry[:PLACE_BYTES]] = entry
                found.append(Timed.of(entry))
        self._tell_of_lost()
        return found

    def next_due_ms(self) -> int | None:
        """When `due` will have something next; None while nothing waits."""
        head = self._head()
        return None if head is None else _at_ms(head)

    def delivered_to_ms(self, now_ms: int) -> int:
        """Up to when everything that was due is delivered, as far as ``now_ms``.

        Raises:
            DiskError: What waits cannot be read.
        """
        head = self._head()
        waiting = [_at_ms(entry) for entry in self._out.values()]
        return min([now_ms, *waiting, *([_at_ms(head)] if head is not None else [])])

    def _head(self) -> bytes | None:
        heap = self._heap
        while heap and self._fresh.get(heap[0][:PLACE_BYTES]) != heap[0]:
            heappop(heap)
        if self._heads_of != self._files.version:
            self._heads_of = self._files.version
            heads = ((run.head(), number) for number, run in enumerate(self._files.runs))
            self._heads = [(head, number) for head, number in heads if head is not None]
            heapify(self._heads)
        heads_first = self._heads[0][0] if self._heads else None
        if heap and (heads_first is None or heap[0] <= heads_first):
            return heap[0]
        return heads_first

    def _take(self) -> bytes | None:
        """Take the first entry, and all of its place; None if it does not wait."""
        first = self._head()
        assert first is not None
        place = first[:PLACE_BYTES]
        waits = False
        fresh = self._fresh.pop(place, None)
        if fresh is not None:
            waits = bool(fresh[KIND_AT])
        while self._heads and self._heads[0][0][:PLACE_BYTES] == place:
            entry, number = heappop(self._heads)
            waits = waits or bool(entry[KIND_AT])
            run = self._files.runs[number]
            run.taken += 1
            head = run.head()
            if head is not None:
                heappush(self._heads, (head, number))
        if not first[KIND_AT]:
            if not waits:
                self._count += 1  # there was no such message
            return None
        at_ms = _at_ms(first)
        self._files.near_ms = max(self._files.near_ms, at_ms)
        if Timed.of(first).is_put_off:
            self._moved = max(0, self._moved - 1)
        if first[RECORD] > record_bytes(self._log_first):
            self._count -= 1
            self._lost += 1
            return None
        return first

    def _tell_of_lost(self) -> None:
        if self._lost:
            log.warning(
                "timed messages expired with the log before they were due count=%d", self._lost
            )
            self._lost = 0

    def done(self, timed: Timed) -> None:
        """Say that a message was delivered: its copy is in the log."""
        self._drop_out(timed.place)

    def give_back(self, timed: Timed) -> None:
        """Say that a message which was handed out could not be delivered: it is due again.

        With another ``due_ms`` than it was handed out with it is put off until then.
        """
        entry = self._out.pop(timed.place, None)
        if entry is None:
            return
        was = Timed.of(entry)
        if timed.due_ms != was.due_ms:
            was = replace(was, at_ms=timed.due_ms)
        self._moved += was.is_put_off
        self._put(was.entry())

    # What waits

    def waits(self, timed: Timed) -> bool:
        """Whether a message waits as it was found, and was not handed out."""
        return self._waits_as(timed.entry())

    def newest(self, timed: Timed) -> Timed | None:
        """A message as it waits now; None if it waits no longer, or was handed out."""
        found = self._deciding(timed.place)
        return Timed.of(found) if found is not None and found[KIND_AT] else None

    def _waits_as(self, entry: bytes) -> bool:
        found = self._deciding(entry[:PLACE_BYTES])
        return found is not None and found[:FIRST_AT] == entry[:FIRST_AT]

    def _deciding(self, place: bytes) -> bytes | None:
        found = [run.deciding(place) for run in self._files.runs]
        found.append(self._fresh.get(place))
        return min((entry for entry in found if entry is not None), default=None)

    def stored_before(
        self, stored_ms: int, at_ms: int, ahead_ms: int | None = None
    ) -> Generator[list[Timed], None, None]:
        """Find what was stored by ``stored_ms`` and is handed out from ``at_ms`` on, in portions.

        What says that it was stored after ``ahead_ms`` is found too: nobody knows how old it is.
        Between two of them others may have a turn. Whether each still waits `waits` says.
        """
        low, limit = PLACE.pack(at_ms, 0), (stored_ms + 1).to_bytes(8, "big")
        ahead, latest = EVER, self._latest_ms
        is_whole = ahead_ms is not None and (latest is None or latest > ahead_ms)
        if ahead_ms is not None:
            ahead = (ahead_ms + 1).to_bytes(8, "big")
        if is_whole:
            self._latest_ms, newest = None, bytes(8)
        for data in self._slices(low, EVER, None if is_whole else stored_ms):
            entries = [data[at : at + ENTRY_BYTES] for at in range(0, len(data), ENTRY_BYTES)]
            if is_whole:
                newest = max((newest, *(each[STORED] for each in entries if each[KIND_AT])))
            yield [
                Timed.of(each)
                for each in entries
                if each[KIND_AT] and (each[STORED] < limit or each[STORED] >= ahead)
            ]
        if is_whole and self._latest_ms is None:
            self._latest_ms = int.from_bytes(newest, "big")

    def _slices(self, low: bytes, high: bytes, since_ms: int | None = None) -> Iterator[bytes]:
        """What is in memory and in runs from a place to below another, whether it counts or not."""
        fresh = (entry for entry in self._fresh.values() if low <= entry < high)
        with self._files.reading() as runs:
            yield b"".join(fresh)
            for run in runs:
                if since_ms is None or run.facts.since_ms <= since_ms:
                    yield from run.entries(low, high, _SLICE)

    def is_stale(self, timed: Timed) -> None:
        """Say that a message was found by a record that no longer counts."""
        for run in self._files.runs:
            if run.facts.low <= timed.origin <= run.facts.high:
                run.stale += 1
                return

    def pending(self, begin_ms: int, end_ms: int) -> Iterator[Timed]:
        """List what is due from ``begin_ms`` to below ``end_ms``, the first due first.

        Nothing may change meanwhile.
        """
        low, high = PLACE.pack(begin_ms, 0), PLACE.pack(end_ms, 0)
        waiting = self._waiting(low, high)
        out = sorted(entry for entry in self._out.values() if low <= entry < high)
        return (Timed.of(entry) for entry in merge(waiting, out))

    def within(self, bounds_ms: Sequence[int]) -> list[int]:
        """How many are due from each moment to below the next; these are in order.

        What was taken back, or put again, may count as well until its run is merged.

        Raises:
            DiskError: What waits cannot be read.
        """
        counts = [0] * (len(bounds_ms) + 1)
        for entry in chain(self._fresh.values(), self._out.values()):
            counts[bisect_right(bounds_ms, _at_ms(entry))] += bool(entry[KIND_AT])
        found = counts[1:-1]
        for run in self._files.runs:
            places = [max(run.taken, run.below(PLACE.pack(each, 0))) for each in bounds_ms]
            for at, (low, high) in enumerate(pairwise(places)):
                found[at] += high - low
        return found

    def _waiting(self, low: bytes, high: bytes) -> Iterator[bytes]:
        sources: list[Iterator[bytes]] = [
            iter(sorted(entry for entry in self._fresh.values() if low <= entry < high))
        ]
        gone = record_bytes(self._log_first)
        sources += [_each(run, low, high) for run in self._files.runs if run.left]
        for _, same in groupby(merge(*sources), key=lambda entry: entry[:PLACE_BYTES]):
            entry = next(same)
            if entry[KIND_AT] and entry[RECORD] <= gone:
                yield entry

    # What is kept

    def delete_before(self, log_offset: LogOffset) -> None:
        """Forget messages that are gone from the log; the next rounds say how many."""
        self._log_first = max(self._log_first, log_offset)

    def _settle(self) -> None:
        """Make a run of what is in memory, if that is much."""
        self._heap = sorted(self._fresh.values())
        if len(self._heap) >= FRESH // 2:  # else most of it is gone
            self._settle_for_good()

    def _settle_for_good(self) -> None:
        if self._fresh:
            self._files.write(sorted(self._fresh.values()))
            self._fresh.clear()
            self._heap = []

    def sync(self) -> None:
        """Save what waits; ``synced_to`` moves up.

        Raises:
            DiskError: It could not be saved.
        """
        self.begin_sync(merging=False).now()

    def begin_sync(self, *, merging: bool = True, aside: bool = False) -> PendingSync:
        """Have what waits now saved, as `sync` does, and runs merged if there are many.

        ``aside`` says that it is waited for on another thread, which is to leave room for this one.

        Raises:
            DiskError: What waits in memory cannot be written.
        """
        holds_to = self.holds_to
        saved = Saved(
            holds_to=holds_to,
            noted_to=self._noted_to,
            count=self._count,
            moved=self._moved,
            fresh=[],
            out=list(self._out.values()),
        )
        if len(self._fresh) > INLINE:
            self._settle_for_good()
        saved.fresh = list(self._fresh.values())
        portion = self._files.begin_sync(
            saved, self._log_first if merging else None, _breathe if aside else lambda: None
        )

        def note() -> None:
            portion.note()
            self._synced_to = holds_to
            lost, dangling = self._files.merged()
            self._count += dangling - lost
            self._lost += lost
            self._tell_of_lost()

        return PendingSync(portion.wait, note, portion.undo)

    def close(self) -> None:
        """Let go of what is open beside the files that are shared; nothing is written."""
        self._files.close()


def _breathe() -> None:
    """Let other threads run, which a thread that computes does not."""
    threading.Event().wait(_BREATH_S)


def _each(run: TimerRun, low: bytes, high: bytes) -> Iterator[bytes]:
    for data in run.entries(low, high):
        for at in range(0, len(data), ENTRY_BYTES):
            yield data[at : at + ENTRY_BYTES]


def _at_ms(entry: bytes) -> int:
    return int.from_bytes(entry[:8], "big")
