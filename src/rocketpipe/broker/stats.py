"""What a broker counts: messages and bytes, by topic and by group, over spans of time.

    TOPIC_PUT_NUMS, TOPIC_PUT_SIZE     topic           stored
    GROUP_GET_NUMS, GROUP_GET_SIZE     topic@group     handed out
    SNDBCK_PUT_NUMS                    topic@group     sent back
    BROKER_PUT_NUMS, BROKER_GET_NUMS   cluster         both, of all topics

Counting is a few additions for what one turn of the loop brought, not for each message. Which span
of time it belongs to is settled every ten seconds, and when somebody asks. What RocketMQ's metrics
tell beyond that (kinds and sizes of messages, dead letters, ends of transactions, how long requests
take) is in ``counts``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Final, TypeVar

from rocketpipe.broker.counts import NORMAL, Counts
from rocketpipe.clock import Clock

#: How often counts are put into their spans.
TICK_MS: Final = 10_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
#: Topics, and pairs of topic and group, that are counted one by one; more are counted in sum.
MAX_KEYS: Final = 20_000

#: The bounds of the times that stores take, in ms, and how RocketMQ calls what is between them.
_TIMES: Final = (
    (0, "<=0ms"),
    (10, "0~10ms"),
    (50, "10~50ms"),
    (100, "50~100ms"),
    (200, "100~200ms"),
    (500, "200~500ms"),
    (1000, "500ms~1s"),
    (2000, "1~2s"),
    (3000, "2~3s"),
    (4000, "3~4s"),
    (5000, "4~5s"),
    (10_000, "5~10s"),
)
_LONGEST: Final = "10s~"

KeyT = TypeVar("KeyT")


class Span:
    """How much was counted in the last while, in steps that go one by one."""

    __slots__ = ("_cells", "_newest", "_step_ms")

    def __init__(self, step_ms: int, steps: int) -> None:
        self._step_ms = step_ms
        #: One for each step, and one for the step that has only begun.
        self._cells = [0] * (steps + 1)
        self._newest = 0

    def add(self, at_ms: int, amount: int) -> None:
        step = at_ms // self._step_ms
        if step != self._newest:
            self._turn(step)
        self._cells[step % len(self._cells)] += amount

    def total(self, at_ms: int, within_ms: int | None = None) -> int:
        """What was counted in all of it, or in its last part."""
        step = at_ms // self._step_ms
        if step != self._newest:
            self._turn(step)
        if within_ms is None:
            return sum(self._cells)
        size = len(self._cells)
        steps = min(within_ms // self._step_ms + 1, size)
        return sum(self._cells[(step - back) % size] for back in range(steps))

    def covered_ms(self, at_ms: int, within_ms: int | None = None) -> int:
        """How long that is, with the step that has only begun."""
        whole = self._step_ms * (len(self._cells) - 1) if within_ms is None else within_ms
        return whole + at_ms % self._step_ms

    def _turn(self, step: int) -> None:
        size = len(self._cells)
        for gone in range(max(self._newest + 1, step - size + 1), step + 1):
            self._cells[gone % size] = 0
        self._newest = step


class Tally:
    """One thing that is counted: how many, how many bytes, and when."""

    __slots__ = (
        "_settled_bytes",
        "_settled_count",
        "born_ms",
        "bytes",
        "count",
        "day",
        "day_bytes",
        "hour",
        "hour_bytes",
        "last_ms",
        "minute",
        "minute_bytes",
    )

    def __init__(self, born_ms: int) -> None:
        self.born_ms = born_ms
        self.last_ms = born_ms
        self.count = 0
        self.bytes = 0
        self._settled_count = 0
        self._settled_bytes = 0
        #: Ten minutes of it, for rates.
        self.minute, self.minute_bytes = Span(TICK_MS, 60), Span(TICK_MS, 60)
        self.hour, self.hour_bytes = Span(10 * MINUTE_MS, 6), Span(10 * MINUTE_MS, 6)
        self.day, self.day_bytes = Span(HOUR_MS, 24), Span(HOUR_MS, 24)

    def settle(self, at_ms: int) -> None:
        """Put what was counted since the last time into the spans."""
        count, size = self.count - self._settled_count, self.bytes - self._settled_bytes
        if not count:
            return
        self._settled_count, self._settled_bytes = self.count, self.bytes
        self.last_ms = at_ms
        for span in (self.minute, self.hour, self.day):
            span.add(at_ms, count)
        for span in (self.minute_bytes, self.hour_bytes, self.day_bytes):
            span.add(at_ms, size)

    def rate(self, at_ms: int, within_ms: int) -> float:
        """How many a second, over the last ten minutes or less."""
        self.settle(at_ms)
        covered = min(self.minute.covered_ms(at_ms, within_ms), max(at_ms - self.born_ms, 1000))
        return 1000 * self.minute.total(at_ms, within_ms) / covered


class DayCounts:
    """What was counted when the day began, and when the day before did."""

    def __init__(self, clock: Clock, zone: tzinfo | None) -> None:
        self._clock = clock
        self._zone = zone
        self._today = self._date()
        self.yesterday_morning = 0
        self.this_morning = 0
        self._last = 0

    def see(self, count: int) -> None:
        """Look at a count, which only grows: the first look of a day makes its morning."""
        today = self._date()
        if today != self._today:
            self._today = today
            self.yesterday_morning, self.this_morning = self.this_morning, self._last
        self._last = count

    def _date(self) -> int:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, self._zone).toordinal()


class Stats:
    """Counts what goes in and out; times are those of the monotonic clock."""

    def __init__(
        self, clock: Clock, *, max_keys: int = MAX_KEYS, zone: tzinfo | None = None
    ) -> None:
        """Begin at zero; days are those of ``zone``, the machine's by default."""
        self._clock = clock
        self._max_keys = max_keys
        self.started_ms = clock.now_ms()
        self._born_ms = clock.monotonic_ms()
        self.puts = Tally(self._born_ms)
        self.gets = Tally(self._born_ms)
        #: Pulls that found something, and those that did not.
        self.found = Tally(self._born_ms)
        self.missed = Tally(self._born_ms)
        self.put_days = DayCounts(clock, zone)
        self.get_days = DayCounts(clock, zone)
        self.failed_puts = 0
        self.slowest_put_ms = 0
        self.slowest_get_ms = 0
        self._put_times = [0] * (len(_TIMES) + 1)
        self._topics: dict[str, Tally] = {}
        self._groups: dict[tuple[str, str], Tally] = {}
        self._sent_back: dict[tuple[str, str], Tally] = {}
        self.counts = Counts(max_keys)

    # What the fast path and handlers tell

    def put(
        self,
        topic: str,
        count: int,
        size: int,
        sizes: Sequence[int] | None = None,
        message_type: str = NORMAL,
    ) -> None:
        """Count messages that were stored, with the bytes of their records.

        ``sizes`` says how many are how large, as `counts.SIZES` has it; None if all are small.
        """
        self.counts.stored(topic, message_type, count, size, sizes)
        puts = self.puts
        puts.count += count
        puts.bytes += size
        tally = self._topics.get(topic)
        if tally is None:
            if len(self._topics) >= self._max_keys:
                return
            tally = self._topics[topic] = Tally(self._clock.monotonic_ms())
        tally.count += count
        tally.bytes += size

    def stored_in(self, took_ms: int) -> None:
        """Note how long the store took for what it was given at once."""
        if took_ms > self.slowest_put_ms:
            self.slowest_put_ms = took_ms
        place = 0
        for bound, _ in _TIMES:
            if took_ms <= bound:
                break
            place += 1
        self._put_times[place] += 1

    def put_failed(self) -> None:
        """Count a send that the store did not take."""
        self.failed_puts += 1

    def get(self, group: str, topic: str, count: int, size: int) -> None:
        """Count messages that a group was given."""
        gets = self.gets
        gets.count += count
        gets.bytes += size
        self.found.count += 1
        self._count(self._groups, (topic, group), count, size)

    def miss(self) -> None:
        """Count a pull that found nothing."""
        self.missed.count += 1

    def sent_back(self, group: str, topic: str) -> None:
        """Count a message that a group is to get again."""
        self._count(self._sent_back, (topic, group), 1, 0)

    async def keep_settled(self) -> None:
        """Put counts into their spans, and forget old ones, for as long as the broker runs."""
        while True:
            await self._clock.sleep(TICK_MS)
            self.settle()

    def settle(self) -> None:
        """Put what was counted so far into its spans; what was idle for a day goes."""
        at_ms = self._clock.monotonic_ms()
        for tally in (self.puts, self.gets, self.found, self.missed):
            tally.settle(at_ms)
        self.put_days.see(self.puts.count)
        self.get_days.see(self.gets.count)
        _settle(self._topics, at_ms)
        _settle(self._groups, at_ms)
        _settle(self._sent_back, at_ms)

    # What those ask who look

    @property
    def now_ms(self) -> int:
        """The moment that a `Tally` is asked about."""
        return self._clock.monotonic_ms()

    def by_topic(self) -> Iterator[tuple[str, Tally]]:
        """What was stored, topic by topic."""
        return iter(list(self._topics.items()))

    def by_group(self) -> Iterator[tuple[str, str, Tally]]:
        """What was given out: topic and group, and how much."""
        return ((topic, group, tally) for (topic, group), tally in list(self._groups.items()))

    def of_topic(self, topic: str) -> Tally | None:
        """What was stored of a topic."""
        return self._topics.get(topic)

    def of_group(self, group: str, topic: str) -> Tally | None:
        """What a group was given of a topic."""
        return self._groups.get((topic, group))

    def of_sent_back(self, group: str, topic: str) -> Tally | None:
        """What a group sent back of a topic."""
        return self._sent_back.get((topic, group))

    def topic_rate(self, topic: str) -> float:
        """Messages a second that came for a topic in the last minute."""
        tally = self._topics.get(topic)
        return tally.rate(self.now_ms, MINUTE_MS) if tally else 0.0

    def group_rate(self, group: str, topic: str) -> float:
        """Messages a second that a group was given of a topic in the last minute."""
        tally = self._groups.get((topic, group))
        return tally.rate(self.now_ms, MINUTE_MS) if tally else 0.0

    def forget_topic(self, topic: str) -> None:
        """Drop the counts of a topic that is deleted."""
        self._topics.pop(topic, None)
        self.counts.forget_topic(topic)
        for table in (self._groups, self._sent_back):
            for key in [key for key in table if key[0] == topic]:
                del table[key]

    def put_times(self) -> str:
        """How often storing took how long, in RocketMQ's words: ``[<=0ms]:17 [0~10ms]:2 …``."""
        names = [*(name for _, name in _TIMES), _LONGEST]
        return " ".join(
            f"[{name}]:{count}" for name, count in zip(names, self._put_times, strict=True)
        )

    def put_time_below(self, share: float) -> int:
        """A time that such a share of all stores did not take longer than, in ms."""
        wanted = share * sum(self._put_times)
        seen = 0
        for (bound, _), count in zip(_TIMES, self._put_times, strict=False):
            seen += count
            if seen >= wanted:
                return min(bound, self.slowest_put_ms)
        return self.slowest_put_ms

    def _count(
        self,
        table: dict[tuple[str, str], Tally],
        key: tuple[str, str],
        count: int,
        size: int,
    ) -> None:
        tally = table.get(key)
        if tally is None:
            if len(table) >= self._max_keys:
                return
            tally = table[key] = Tally(self._clock.monotonic_ms())
        tally.count += count
        tally.bytes += size


def _settle(table: dict[KeyT, Tally], at_ms: int) -> None:
    for tally in table.values():
        tally.settle(at_ms)
    for key in [key for key, tally in table.items() if at_ms - tally.last_ms > DAY_MS]:
        del table[key]
