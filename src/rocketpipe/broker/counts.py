"""What only RocketMQ's metrics tell: counts that grow as long as a broker runs.

    stored          by topic and kind of message: how many, how many bytes, how large each
    dead letters    by group and the topic they came from
    ends            of transactions by topic: committed, rolled back, and how long it took
    answers         of requests by code, and how long they took
    timed           messages by topic: put to wait and for how long, and delivered
    notes of pops   by group and topic: written and done with; messages that came again

Each is a few additions for what came together. Keys are bounded: what comes beyond is not told.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

#: Kinds of messages, as RocketMQ's metrics call them.
NORMAL: Final = "normal"
FIFO: Final = "fifo"
DELAY: Final = "delay"
TRANSACTION: Final = "transaction"

#: The bounds of sizes in bytes, of times of answers in ms, of transactions and delays in seconds,
#: and of looks for pops that are due in ms, as RocketMQ's brokers have them.
SIZES: Final = (1024, 4096, 512 << 10, 1 << 20, 2 << 20, 4 << 20)
ANSWER_MS: Final = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
TRANSACTION_S: Final = (5, 60, 600, 3600, 43_200, 86_400)
DELAY_S: Final = (60, 600, 3600, 43_200, 86_400, 259_200)
SCAN_MS: Final = (1, 10, 100, 1000, 2000, 3000)
#: Kinds of notes of pops: what was given out, and what was acknowledged of it.
CHECK_POINT: Final = "CK"
ACK: Final = "ACK"
#: So many kinds of answers are told apart: codes that are served, with what they were answered.
_MAX_ANSWERS: Final = 2000

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Spread:
    """How often something was how large, by bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0

    def add(self, value: int, count: int = 1) -> None:
        """Count something, or several of the same size."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count


class Answered(NamedTuple):
    """What requests that were answered alike have in common."""

    code: int
    answer: int
    waited: bool
    oneway: bool = False


class Counts:
    """Counts of one broker."""

    def __init__(self, max_keys: int) -> None:
        self._max_keys = max_keys
        self._stored: dict[tuple[str, str], Spread] = {}
        self._dead_letters: dict[tuple[str, str], int] = {}
        self._committed: dict[str, Spread] = {}
        self._rolled_back: dict[str, int] = {}
        self._answers: dict[Answered, Spread] = {}
        self._timed: dict[str, Spread] = {}
        self._delivered: dict[str, int] = {}
        self._pop_notes: dict[tuple[str, str, str], int] = {}
        self._pop_notes_done: dict[tuple[str, str, str, int], int] = {}
        self._popped_again: dict[tuple[str, str], int] = {}
        self.pop_scans = Spread(SCAN_MS)

    # What is told

    def stored(
        self, topic: str, message_type: str, count: int, size: int, sizes: Sequence[int] | None
    ) -> None:
        """Count messages; ``sizes`` has how many are how large, None says that all are small."""
        spread = self._of(self._stored, (topic, message_type), lambda: Spread(SIZES))
        if spread is None:
            return
        spread.total += size
        if sizes is None:
            spread.counts[0] += count
        else:
            for place, some in enumerate(sizes):
                spread.counts[place] += some

    def dead_letter(self, group: str, topic: str) -> None:
        """Count a message that a group gave up on; ``topic`` is where it came from."""
        self._add(self._dead_letters, (group, topic))

    def committed(self, topic: str, after_ms: int) -> None:
        """Count a transaction that was committed, so long after its message was sent."""
        spread = self._of(self._committed, topic, lambda: Spread(TRANSACTION_S))
        if spread is not None:
            spread.add(max(after_ms, 0) // 1000)

    def rolled_back(self, topic: str) -> None:
        """Count a transaction that was rolled back."""
        self._add(self._rolled_back, topic)

    def answered(self, alike: Answered, took_ms: int, count: int = 1) -> None:
        """Count requests that were answered, and how long that took."""
        spread = self._answers.get(alike)
        if spread is None:
            if len(self._answers) >= _MAX_ANSWERS:
                return
            spread = self._answers[alike] = Spread(ANSWER_MS)
        spread.add(took_ms, count)

    def timed(self, topic: str, delay_ms: int) -> None:
        """Count a message that was put to wait, and how long it is to."""
        spread = self._of(self._timed, topic, lambda: Spread(DELAY_S))
        if spread is not None:
            spread.add(max(delay_ms, 0) // 1000)

    def delivered(self, topic: str) -> None:
        """Count a message whose time had come."""
        self._add(self._delivered, topic)

    def pop_note(self, group: str, topic: str, kind: str) -> None:
        """Count a note of a pop that was written."""
        self._add(self._pop_notes, (group, topic, kind))

    def pop_note_done(self, group: str, topic: str, kind: str, queue_id: int) -> None:
        """Count a note of a pop in a queue that is done with."""
        self._add(self._pop_notes_done, (group, topic, kind, queue_id))

    def popped_again(self, group: str, topic: str) -> None:
        """Count a message that was not acknowledged in time, and shows again."""
        self._add(self._popped_again, (group, topic))

    def forget_topic(self, topic: str) -> None:
        """Drop the counts of a topic that is deleted."""
        for key in [key for key in self._stored if key[0] == topic]:
            del self._stored[key]
        for pair in [pair for pair in self._dead_letters if pair[1] == topic]:
            del self._dead_letters[pair]
        for note in [note for note in self._pop_notes if note[1] == topic]:
            del self._pop_notes[note]
        for done in [done for done in self._pop_notes_done if done[1] == topic]:
            del self._pop_notes_done[done]
        for pair in [pair for pair in self._popped_again if pair[1] == topic]:
            del self._popped_again[pair]
        self._committed.pop(topic, None)
        self._rolled_back.pop(topic, None)
        self._timed.pop(topic, None)
        self._delivered.pop(topic, None)

    # What those ask who look

    def by_type(self) -> Iterator[tuple[str, str, Spread]]:
        """What was stored: topic, kind, and sizes."""
        return ((topic, kind, found) for (topic, kind), found in list(self._stored.items()))

    def dead_letters(self) -> Iterator[tuple[str, str, int]]:
        """Messages that groups gave up on: group, topic, how many."""
        return ((group, topic, n) for (group, topic), n in list(self._dead_letters.items()))

    def commits(self) -> Iterator[tuple[str, Spread]]:
        """Transactions that were committed, by topic, with the seconds that took."""
        return iter(list(self._committed.items()))

    def rollbacks(self) -> Iterator[tuple[str, int]]:
        """Transactions that were rolled back, by topic."""
        return iter(list(self._rolled_back.items()))

    def delays(self) -> Iterator[tuple[str, Spread]]:
        """Messages that were put to wait, by topic, with the seconds that they were to."""
        return iter(list(self._timed.items()))

    def deliveries(self) -> Iterator[tuple[str, int]]:
        """Messages whose time had come, by topic."""
        return iter(list(self._delivered.items()))

    def pop_notes(self) -> Iterator[tuple[str, str, str, int]]:
        """Notes of pops that were written: group, topic, kind, how many."""
        return ((*key, n) for key, n in list(self._pop_notes.items()))

    def pop_notes_done(self) -> Iterator[tuple[str, str, str, int, int]]:
        """Notes of pops that are done with: group, topic, kind, queue, how many."""
        return ((*key, n) for key, n in list(self._pop_notes_done.items()))

    def came_again(self) -> Iterator[tuple[str, str, int]]:
        """Messages that show again: group, topic, how many."""
        return ((*key, n) for key, n in list(self._popped_again.items()))

    def answers(self) -> Iterator[tuple[Answered, Spread]]:
        """How long answers took, in ms."""
        return iter(list(self._answers.items()))

    def _of(
        self, table: dict[KeyT, ValueT], key: KeyT, make: Callable[[], ValueT]
    ) -> ValueT | None:
        found = table.get(key)
        if found is None and len(table) < self._max_keys:
            found = table[key] = make()
        return found

    def _add(self, table: dict[KeyT, int], key: KeyT) -> None:
        if key in table or len(table) < self._max_keys:
            table[key] = table.get(key, 0) + 1


def sizes_of(sizes: Sequence[int]) -> list[int] | None:
    """How many are how large, as `Counts.stored` takes it."""
    if max(sizes) <= SIZES[0]:
        return None
    counts = [0] * (len(SIZES) + 1)
    for size in sizes:
        counts[bisect_left(SIZES, size)] += 1
    return counts
