"""A history put together: sends, deliveries, how each ended, and who had which queue when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rocketpipe.model.names import DLQ_PREFIX
from rocketpipe.testing.histories.decisions import Decisions
from rocketpipe.testing.histories.history import Event, Phase, What

#: A queue's name and an offset in it.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that must not be; ``kind`` is a name from the top of a file of checks."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


@dataclass(slots=True, eq=False)
class Attempt:
    """One send of a message; ``end`` stays ``INFO`` if its sender never said."""

    who: str
    at_ns: int
    end: Phase = Phase.INFO
    end_ns: int | None = None
    place: Place | None = None


@dataclass(slots=True, eq=False)
class Send:
    """A message and all the attempts to send it."""

    id: str
    topic: str
    key: str
    tag: str
    crc: int
    due_ns: int
    half: bool = False
    stage: str = ""
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def first_ns(self) -> int:
        """When the first attempt began."""
        return self.attempts[0].at_ns

    @property
    def is_stored(self) -> bool:
        """Whether a broker said that it has the message."""
        return any(attempt.end is Phase.OK for attempt in self.attempts)

    def __str__(self) -> str:
        places = [f"{place[0]}:{place[1]}" for a in self.attempts if (place := a.place)]
        return f"{self.id} stored at {', '.join(places)}" if places else self.id


@dataclass(slots=True, eq=False)
class Delivery:
    """A handler's turn with a message; ``end`` is None until it has said how it went."""

    who: str
    group: str
    id: str
    topic: str
    tag: str
    crc: int
    times: int
    place: Place
    at_ns: int
    until_ns: int = 0
    end: Phase | None = None
    end_ns: int | None = None

    def __str__(self) -> str:
        return f"{self.id} ({self.place[0]}:{self.place[1]}) by {self.who} at {self.at_ns}"


@dataclass(slots=True, eq=False)
class Group:
    """What the members of a group said of it."""

    name: str
    ordered: bool = False
    broadcast: bool = False
    popped: bool = False
    max_retries: int | None = None
    topics: set[str] = field(default_factory=set)
    tags: frozenset[str] = frozenset()
    #: When each member joined, and when it left or was killed.
    members: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    @property
    def dead_letters_of(self) -> str | None:
        """Whose dead letters it reads, if it does."""
        for topic in self.topics:
            if topic.startswith(DLQ_PREFIX):
                return topic.removeprefix(DLQ_PREFIX)
        return None

    def wants(self, topic: str, tag: str) -> bool:
        """Whether messages like that are for this group."""
        return topic in self.topics and (not self.tags or tag in self.tags)


@dataclass(slots=True, eq=False)
class Holding:
    """A queue was in a member's share for some time."""

    who: str
    from_ns: int
    until_ns: int | None = None
    #: It ended because the member closed in good order.
    left_well: bool = False

    def overlaps(self, from_ns: int, until_ns: int) -> bool:
        """Whether some of that time lies in another."""
        return self.from_ns <= until_ns and (self.until_ns is None or self.until_ns >= from_ns)


def holder_at(holdings: Sequence[Holding], delivery: Delivery) -> Holding | None:
    """Which of its holdings a member had last when it got a message."""
    found = None
    for held in holdings:
        if held.who == delivery.who and held.from_ns <= delivery.at_ns:
            found = held
    return found


@dataclass(slots=True, eq=False)
class _Fault:
    broker: str
    from_ns: int
    until_ns: int | None = None


class Facts:
    """What a history says, for checks to look up."""

    def __init__(self) -> None:
        self.sends: dict[str, Send] = {}
        self.deliveries: list[Delivery] = []
        self.groups: dict[str, Group] = {}
        self.fates = Decisions()
        self._of_group: defaultdict[str, list[Delivery]] = defaultdict(list)
        self._open: dict[tuple[str, str, Place], Delivery] = {}
        self._holdings: defaultdict[tuple[str, str], list[Holding]] = defaultdict(list)
        self._sharing: set[tuple[str, str, str]] = set()
        self._faults: list[_Fault] = []
        self._open_faults: dict[tuple[str, str], _Fault] = {}
        self._ended: defaultdict[str, list[tuple[int, bool]]] = defaultdict(list)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Facts:
        """Put a history together; its events come in the order of time."""
        facts = cls()
        take = {
            What.SEND: facts._send,
            What.HANDLE: facts._handle,
            What.JOIN: facts._join,
            What.SHARE: facts._share,
            What.LEAVE: facts._leave,
            What.KILL: facts._kill,
            What.FAULT: facts._fault,
        }
        for event in events:
            take.get(event.what, facts.fates.take)(event)
        return facts

    # Questions

    def stored(self) -> Iterator[Send]:
        """The messages that brokers said they have."""
        return (sent for sent in self.sends.values() if sent.is_stored)

    def owed(self) -> Iterator[Send]:
        """Those that have to be handled: stored, and neither half, nor taken back, nor a stage's.

        Of a stage it counts which of its batch's tries was the one.
        """
        for sent in self.stored():
            if sent.stage or (sent.half and not self.fates.is_committed(sent.id)):
                continue
            if not self.fates.may_be_recalled(sent.id):
                yield sent

    def copies(self, sent: Send) -> int:
        """In how many places a message may be."""
        if sent.stage:
            return 1
        if sent.half:
            return len(sent.attempts)  # each is one request, and is decided once
        unsure = sum(
            attempt.end is Phase.INFO or self.faulty(attempt.at_ns, attempt.end_ns)
            for attempt in sent.attempts
        )
        return max(1, sum(attempt.end is Phase.OK for attempt in sent.attempts)) + unsure

    def of_group(self, group: str) -> Sequence[Delivery]:
        """The deliveries to one group, in the order of time."""
        return self._of_group[group]

    def seen_at(self) -> Iterator[tuple[Place, str]]:
        """Every place that somebody says a message has, with the message's id."""
        for sent in self.sends.values():
            for attempt in sent.attempts:
                if attempt.place is not None:
                    yield attempt.place, sent.id
        for delivery in self.deliveries:
            yield delivery.place, delivery.id

    def reader_of_dead(self, group: str) -> Group | None:
        """Who reads a group's dead letters, if anybody does."""
        for each in self.groups.values():
            if each.dead_letters_of == group:
                return each
        return None

    def dead_letters(self, group: str) -> set[str]:
        """The ids that were found among a group's dead letters."""
        reader = self.reader_of_dead(group)
        return set() if reader is None else {d.id for d in self.of_group(reader.name)}

    def done_with(self, group: str) -> set[str]:
        """The ids of what a group has handled; what was perhaps acknowledged may not come again."""
        handled = {delivery.id for delivery in self.of_group(group) if delivery.end is Phase.OK}
        return handled | self.fates.may_be_acked(group)

    def given_up(self, group: str) -> set[str]:
        """The ids of a group's messages whose last attempt failed."""
        attempts = self.groups[group].max_retries
        if attempts is None:
            return set()
        return {
            delivery.id
            for delivery in self.of_group(group)
            if delivery.end is Phase.FAIL and delivery.times >= attempts
        }

    def holdings(self, delivery: Delivery) -> Sequence[Holding]:
        """Who of its group had the queue of a delivery, and when."""
        return self._holdings[delivery.group, delivery.place[0]]

    def has_shares(self, delivery: Delivery) -> bool:
        """Whether its member recorded shares of that topic at all."""
        topic = delivery.place[0].partition("/")[0]
        return (delivery.group, delivery.who, topic) in self._sharing

    def faulty(self, from_ns: int, until_ns: int | None, queue: str = "") -> bool:
        """Whether something was broken at any moment of that time that concerns a queue, or any."""
        broker = queue.split("/")[1] if queue else ""
        return any(
            (until_ns is None or fault.from_ns <= until_ns)
            and (fault.until_ns is None or fault.until_ns >= from_ns)
            for fault in self._faults
            if not broker or fault.broker in ("", broker)
        )

    def killed_between(self, who: str, from_ns: int, until_ns: int) -> bool:
        """Whether a member died in that time."""
        return any(
            killed and from_ns <= at_ns <= until_ns for at_ns, killed in self._ended.get(who, ())
        )

    def end_of(self, delivery: Delivery) -> int | None:
        """When a handler was done, or gone with its process; None if neither is known."""
        if delivery.end_ns is not None:
            return delivery.end_ns
        ends = [at_ns for at_ns, _ in self._ended.get(delivery.who, ()) if at_ns >= delivery.at_ns]
        return min(ends, default=None)

    # Events

    def _send(self, event: Event) -> None:
        if event.phase is Phase.INVOKE:
            sent = self.sends.setdefault(
                event.id,
                Send(
                    event.id,
                    event.topic,
                    event.key,
                    event.tag,
                    event.crc,
                    event.due_ns,
                    event.half,
                    event.stage,
                ),
            )
            sent.attempts.append(Attempt(event.who, event.at_ns))
            if event.stage:
                self.fates.stage(event).ids.append(event.id)
            return
        known = self.sends.get(event.id)
        for attempt in reversed(known.attempts if known is not None else []):
            if attempt.who == event.who and attempt.end_ns is None:
                attempt.end, attempt.end_ns = event.phase, event.at_ns
                if event.phase is Phase.OK and event.queue:
                    attempt.place = event.queue, event.offset
                return

    def _handle(self, event: Event) -> None:
        place = event.queue, event.offset
        key = event.who, event.group, place
        if event.phase is not Phase.INVOKE:
            delivery = self._open.pop(key, None)
            if delivery is not None:
                delivery.end, delivery.end_ns = event.phase, event.at_ns
            return
        delivery = Delivery(
            event.who,
            event.group,
            event.id,
            event.topic,
            event.tag,
            event.crc,
            event.times,
            place,
            event.at_ns,
            event.until_ns,
        )
        self.groups.setdefault(event.group, Group(event.group))
        self._open[key] = delivery
        self.deliveries.append(delivery)
        self._of_group[event.group].append(delivery)

    def _join(self, event: Event) -> None:
        group = self.groups.setdefault(event.group, Group(event.group))
        group.ordered = event.ordered
        group.broadcast = event.broadcast
        group.popped = event.popped
        group.max_retries = event.max_retries
        group.topics.update(event.topics)
        group.tags = frozenset(event.tags)
        group.members[event.who] = event.at_ns, None

    def _share(self, event: Event) -> None:
        self._sharing.add((event.group, event.who, event.topic))
        for (group, queue), holdings in tuple(self._holdings.items()):
            ours = group == event.group and queue.partition("/")[0] == event.topic
            if ours and queue not in event.queues:
                _end(holdings, event)
        for queue in event.queues:
            holdings = self._holdings[event.group, queue]
            if not any(held.who == event.who and held.until_ns is None for held in holdings):
                holdings.append(Holding(event.who, event.at_ns))

    def _leave(self, event: Event) -> None:
        if event.phase is Phase.OK:
            self._gone(event, killed=False)

    def _kill(self, event: Event) -> None:
        self._gone(event, killed=True)

    def _gone(self, event: Event, *, killed: bool) -> None:
        self._ended[event.who].append((event.at_ns, killed))
        for group in self.groups.values():
            if event.who in group.members:
                group.members[event.who] = group.members[event.who][0], event.at_ns
        for holdings in self._holdings.values():
            _end(holdings, event, left_well=not killed)

    def _fault(self, event: Event) -> None:
        if not event.repeats:
            return
        key = event.who, event.name
        if event.phase is Phase.INVOKE:
            self._open_faults[key] = fault = _Fault(event.broker, event.at_ns)
            self._faults.append(fault)
        elif (over := self._open_faults.pop(key, None)) is not None:
            over.until_ns = event.at_ns


def _end(holdings: Iterable[Holding], event: Event, *, left_well: bool = False) -> None:
    for held in holdings:
        if held.who == event.who and held.until_ns is None:
            held.until_ns, held.left_well = event.at_ns, left_well
