"""What falls due when: messages that wait in ``rmq_sys_wheel_timer`` for their time.

Everything here follows from the log. The dispatcher shows it every record, and of these it notes

    a record of the timer topic          a message waits until it is due
      … with TIMER_ROLL_TIMES            the same message as one before it, which no longer counts
      … with TIMER_DEL_UNIQKEY           messages are taken back
    TIMER_DEQUEUE_MS in another topic    a message was delivered there

so that a message is delivered once, however often the broker starts anew. Which message a record is
about it says by TIMER_ORIGIN. Where it does not, as with those of Apache's brokers and of versions
before this one, it is found by topic, unique key and second: all that are taken back, or the oldest
that was put again or delivered.

However many wait, few of them are in memory: those that came last, and those that are handed out.
The others are in files that are written once and merged beside the loop (`run`), and what of
all this is good is in a small file that is saved now and then:

    timer/waiting.json   {"holds_to": log offset, "noted_to": log offset, "count": of all that wait,
                          "moved": how many were put off, "next": number of the next run,
                          "runs": [[number, entries, checksum, lowest origin, highest origin,
                                    oldest record, since ms, entries handed out], …],
                          "fresh": [entry in hex, …], "out": [entry in hex, …]}
    timer/<number>       runs, the oldest first

What "out" has was handed out, and is due again after a restart unless the log shows otherwise.
Without these files, or with damaged ones, the log is read from the oldest message of the timer
topic on. ``pending.json``, which versions before this one wrote, is taken over.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from dataclasses import replace
from typing import Final

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.properties import read_text
from rocketpipe.record.hot import java_hash
from rocketpipe.store.log.records import value_of
from rocketpipe.store.timers.entry import (
    ENTRY_BYTES,
    KEY,
    KIND_AT,
    PLACE,
    PLACE_BYTES,
    PRECISION_MS,
    Origin,
    Timed,
    due_ms,
    hashed,
    is_number,
    origins_in,
)
from rocketpipe.store.timers.waiting import EVER, WaitingMessages

log = logging.getLogger(__name__)

#: So often a second is looked through for a key before it is kept what it has.
_MANY_OF_A_SECOND: Final = 8


class TimerWheel(WaitingMessages):
    """What waits, as the log shows it."""

    #: Which second was asked for by keys last, how often, and what it has if that was often.
    _asked: tuple[int, int] = (-1, 0)
    _second: tuple[int, dict[int, list[Timed]]] | None = None

    def observe(
        self,
        topic: str,
        properties: bytes,
        log_offset: LogOffset,
        size: int,
        queue_offset: QueueOffset,
        stored_ms: int,
    ) -> None:
        """Take note of a record of the log; to do it again is no harm.

        Raises:
            DiskError: What waits in memory cannot be written; this one was noted.
        """
        if log_offset < self.holds_to or log_offset < self._noted_to:
            return
        self._noted_to = log_offset + size
        if topic != TIMER_TOPIC:
            if b"TIMER_DEQUEUE_MS\x01" in properties:
                self._delivered(topic, properties)
            return
        out = value_of(properties, b"TIMER_OUT_MS\x01")
        real_topic = read_text(value_of(properties, b"REAL_TOPIC\x01"))
        if not is_number(out) or not real_topic:
            log.warning("record of the timer topic has no due time log_offset=%d", log_offset)
            return
        origins = origins_in(value_of(properties, b"TIMER_ORIGIN\x01"))
        recalled = value_of(properties, b"TIMER_DEL_UNIQKEY\x01")
        if recalled:
            key = hashed(read_text(recalled))
            self._end(origins, key)
            for place in [] if origins else self._known(key, int(out)):
                self._forget(place, key)
            return
        exact = due_ms(properties, int(out), stored_ms)
        key = _key(real_topic, properties)
        timed = Timed(
            *(exact, log_offset, size, queue_offset, int(out), key, java_hash(real_topic)),
            *(stored_ms, log_offset, exact),
        )
        if not value_of(properties, b"TIMER_ROLL_TIMES\x01"):
            self._add(timed, first=True)
        elif len(origins) == 1:
            self._put_again(timed, origins[0])
        else:
            for place in self._known(key, int(out))[:1]:
                self._forget(place, key)
            self._add(timed, first=True)

    def _put_again(self, timed: Timed, origin: Origin) -> None:
        at_ms, first = PLACE.unpack(origin.place)
        timed = replace(timed, origin=LogOffset(first), at_ms=at_ms)
        elsewhere = []
        if origin.place != origin.when_due:
            elsewhere = [place for place in self._places(origin) if place != origin.place]
            for place in elsewhere:
                self._forget(place, timed.key)
        self._add(timed, first=bool(elsewhere))

    def _delivered(self, topic: str, properties: bytes) -> None:
        out = value_of(properties, b"TIMER_OUT_MS\x01")
        if not is_number(out):
            return
        key = _key(topic, properties)
        origins = origins_in(value_of(properties, b"TIMER_ORIGIN\x01"))
        self._end(origins[:1], key)
        for place in [] if origins else self._known(key, int(out))[:1]:
            self._forget(place, key)

    def _end(self, origins: list[Origin], key: int) -> None:
        for origin in origins:
            if origin.place == origin.when_due:
                self._forget(origin.place, key)
                continue
            for place in self._places(origin):
                self._forget(place, key)

    def _places(self, origin: Origin) -> list[bytes]:
        """Where a message is that was put off: a restart may know of none, or of some of it."""
        found = [place for place in set(origin) if self._has(place)]
        if found or not self._moved:
            return found
        needle = origin.place[8:16]
        seen: set[bytes] = set()
        for data in self._slices(bytes(PLACE_BYTES), EVER):
            at = data.find(needle)
            while at >= 0:
                if at % ENTRY_BYTES == 8:
                    seen.add(data[at - 8 : at + 8])
                at = data.find(needle, at + 1)
        return [place for place in sorted(seen) if self._has(place)]

    def _has(self, place: bytes) -> bool:
        """Whether a message waits at a place, or was handed out from it."""
        found = self._out.get(place) or self._deciding(place)
        return found is not None and bool(found[KIND_AT])

    def _known(self, key: int, out: int) -> list[bytes]:
        """The places of what waits, or is handed out, with a key and a second, the oldest first."""
        second, times = self._asked
        self._asked = (out, times + 1 if second == out else 1)
        same = [timed for timed in self._out_now() if (timed.key, timed.out_ms) == (key, out)]
        if self._asked[1] < _MANY_OF_A_SECOND:
            same += finished(self.alike(key, out))
        else:
            if self._second is None or self._second[0] != out:
                self._second = out, self._by_key(out)
            same += [timed for timed in self._second[1].get(key, ()) if self.waits(timed)]
        return [timed.place for timed in sorted(same, key=lambda timed: timed.origin)]

    def _by_key(self, out: int) -> dict[int, list[Timed]]:
        """All that waits of a second: whoever names many of it by their keys names all."""
        found: dict[int, list[Timed]] = {}
        for entry in self._waiting(*_span(out)):
            timed = Timed.of(entry)
            if timed.out_ms == out:
                found.setdefault(timed.key, []).append(timed)
        return found

    def _add(self, timed: Timed, *, first: bool) -> None:
        if timed.out_ms == self._asked[0]:
            self._asked, self._second = (-1, 0), None
        super()._add(timed, first=first)

    def alike(self, key: int, out: int) -> Generator[None, None, list[Timed]]:
        """Find what waits with a key and a second; whenever it yields, others may have a turn.

        What is handed out is not among it. How the others wait by now `newest` says.
        """
        needle = key.to_bytes(8, "big")
        low, high = (bytes(PLACE_BYTES), EVER) if self._moved else _span(out)
        first: dict[bytes, bytes] = {}
        for data in self._slices(low, high):
            at = data.find(needle)
            while at >= 0:
                start = at - KEY.start
                if start % ENTRY_BYTES == 0:
                    entry = data[start : start + ENTRY_BYTES]
                    place = entry[:PLACE_BYTES]
                    first[place] = min(entry, first.get(place, entry))
                at = data.find(needle, at + 1)
            yield
        found = (Timed.of(entry) for entry in first.values() if entry[KIND_AT])
        return sorted(timed for timed in found if timed.out_ms == out)

    def recover(
        self, log_first: LogOffset, log_end: LogOffset, oldest: LogOffset | None
    ) -> LogOffset:
        """Take over what was saved; gives the offset in the log from which to dispatch again.

        ``oldest`` is the first record of the timer topic that is still in the log, if there is one.

        Raises:
            DiskError: The files cannot be read, or those of no use not be removed.
        """
        self._log_first = log_first
        saved = self._files.load(log_end)
        start = log_end if oldest is None else oldest
        if saved is not None:
            start, self._latest_ms = saved.holds_to, None
            self._count, self._moved, self._noted_to = saved.count, saved.moved, saved.noted_to
            for entry in saved.fresh:
                self._put_and_settle(entry)
            for timed in saved.pending:
                self._add(timed, first=True)
        self.holds_to = LogOffset(max(start, log_first))
        self._synced_to = self.holds_to
        return self.holds_to


def finished(search: Generator[None, None, list[Timed]]) -> list[Timed]:
    """Search without a pause."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: list[Timed] = end.value
            return found


def _span(out: int) -> tuple[bytes, bytes]:
    """Between which places messages are of this TIMER_OUT_MS, unless they were put off."""
    return PLACE.pack(out, 0), PLACE.pack(out + 2 * PRECISION_MS + 1, 0)


def _key(topic: str, properties: bytes) -> int:
    return hashed(f"{topic}+{read_text(value_of(properties, b'UNIQ_KEY' + bytes([1])))}")
