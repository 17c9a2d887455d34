"""How a group shares out the queues of a topic.

Every member works it out by itself: given the same queues and the same members, in the same order,
all come to the same answer, and each takes its share of it. So the answers must be RocketMQ's to
the last queue, or a fleet of mixed clients would read some queues twice and others never.

    AVERAGE              blocks of neighbours, the first members one more    AVG
    CIRCLE               dealt out one by one                                AVG_BY_CIRCLE
    configured(…)        these queues, whoever else there is                 CONFIG
    machine_room(…)      only queues of the rooms given                      MACHINE_ROOM
    consistent_hash(…)   few queues move when a member comes or goes         CONSISTENT_HASH
    room_nearby(…)       each room its own; orphaned rooms to everybody      MACHINE_ROOM_NEARBY-…
    nearest_room(…)      each room its own; orphans to the nearest room      ours alone

All but ``configured`` and ``machine_room`` give every queue to exactly one member. ``machine_room``
does so with the queues of its rooms, unless it is asked to repeat the mistake of old fleets.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import MessageQueue

Queues: TypeAlias = Sequence[MessageQueue]
Members: TypeAlias = Sequence[str]

#: Which of the queues a member gets, by its id; both lists are in order.
Share: TypeAlias = Callable[[str, Queues, Members], list[MessageQueue]]

HashOf: TypeAlias = Callable[[str], int]

#: How far it is from the room of some queues to a room that could read them.
Distance: TypeAlias = Callable[[str, str], float]

VIRTUAL_NODES: Final = 10


class AssignmentFailed(RocketPipeError):
    """A strategy cannot say who gets what; the error says why."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to share out queues: ``strategy(member, queues, members)`` gives the member's share."""

    #: By this name brokers know it.
    name: str
    share: Share

    def __call__(self, member: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Give the queues of one member; ``queues`` and ``members`` are in order already.

        Raises:
            AssignmentFailed: If there is no member, no queue, or no telling.
        """
        return self.share(member, queues, members)


@dataclass(frozen=True, slots=True)
class Rooms:
    """Where queues and members are. None or nothing means that it cannot be told."""

    of_queue: Callable[[MessageQueue], str | None]
    of_member: Callable[[str], str | None]


def in_order(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Sort queues as Java does: by topic, broker and number."""
    return sorted(
        queues, key=lambda queue: (_units(queue.topic), _units(queue.broker_name), queue.queue_id)
    )


def ids_in_order(members: Iterable[str]) -> list[str]:
    """Sort client ids as Java does. One that is listed twice stays so: Java counts it twice."""
    return sorted(members, key=_units)


def configured(queues: Iterable[MessageQueue]) -> Strategy:
    """Always these queues: someone has seen to it that the members' lists do not overlap."""
    fixed = tuple(queues)
    return Strategy("CONFIG", lambda _member, _queues, _members: list(fixed))


def machine_room(rooms: Collection[str], *, legacy: bool = False) -> Strategy:
    """Only queues of brokers called ``room@name`` with such a room; the others are nobody's.

    Java before 4.8 and the Go client take the even part of each share from all the queues instead
    of those of the rooms. ``legacy`` does the same, for fleets in which such clients take part.
    """
    wanted = frozenset(rooms)

    def share(member: str, queues: Queues, members: Members) -> list[MessageQueue]:
        index = _index(member, queues, members)
        if index is None:
            return []
        ours = [queue for queue in queues if _room_in_name(queue.broker_name) in wanted]
        even, left_over = divmod(len(ours), len(members))
        source = queues if legacy else ours
        mine = list(source[even * index : even * (index + 1)])
        if index < left_over:
            mine.append(ours[even * len(members) + index])
        return mine

    return Strategy("MACHINE_ROOM", share)


def md5_hash(text: str) -> int:
    """The first four bytes of the text's MD5, as RocketMQ places nodes and queues on its ring."""
    digest = hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def consistent_hash(virtual_nodes: int = VIRTUAL_NODES, hash_of: HashOf = md5_hash) -> Strategy:
    """Members and queues on a ring: each queue goes to the next member.

    A member stands there ``virtual_nodes`` times; with none at all, nobody gets anything.

    Raises:
        AssignmentFailed: If ``virtual_nodes`` is negative.
    """
    if virtual_nodes < 0:
        raise AssignmentFailed(f"{virtual_nodes} virtual nodes: give 0 or more")

    def share(member: str, queues: Queues, members: Members) -> list[MessageQueue]:
        if _index(member, queues, members) is None:
            return []
        ring = _ring(members, virtual_nodes, hash_of)
        if not ring:
            return []
        places = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            at = bisect_left(places, hash_of(_text_of(queue)))
            return ring[places[at % len(places)]]

        return [queue for queue in queues if owner(queue) == member]

    return Strategy("CONSISTENT_HASH", share)


def room_nearby(inner: Strategy, rooms: Rooms) -> Strategy:
    """Each room's queues to its own members; those of rooms without members to everybody.

    However far away these are: ``nearest_room`` is the one that looks at distance.
    """

    def share(member: str, queues: Queues, members: Members) -> list[MessageQueue]:
        if _index(member, queues, members) is None:
            return []
        queues_by_room = _queues_by_room(queues, rooms)
        members_by_room = _members_by_room(members, rooms)
        own_room = rooms.of_member(member) or ""
        mine: list[MessageQueue] = []
        own = queues_by_room.pop(own_room, None)
        if own:
            mine += inner(member, own, members_by_room[own_room])
        for room in sorted(queues_by_room, key=_units):
            if room not in members_by_room:
                mine += inner(member, queues_by_room[room], members)
        return mine

    return Strategy(f"MACHINE_ROOM_NEARBY-{inner.name}", share)


def nearest_room(inner: Strategy, rooms: Rooms, distance: Distance) -> Strategy:
    """Each room's queues to its own members; those of a room without members to the nearest one.

    A room shares its own queues and those it took over in one go, so that its members carry them
    evenly. Of rooms that are equally near, the first by name is taken. RocketMQ has no such
    strategy: every member of the group must be one of ours.
    """

    def share(member: str, queues: Queues, members: Members) -> list[MessageQueue]:
        if _index(member, queues, members) is None:
            return []
        members_by_room = _members_by_room(members, rooms)
        manned = sorted(members_by_room, key=_units)
        own_room = rooms.of_member(member)
        reader_of = {
            room: room if room in members_by_room else _nearest(room, manned, distance)
            for room in _queues_by_room(queues, rooms)
        }
        ours = [queue for queue in queues if reader_of[rooms.of_queue(queue) or ""] == own_room]
        return inner(member, ours, members_by_room[own_room or ""]) if ours else []

    return Strategy(f"NEAREST_ROOM-{inner.name}", share)


def room_of_broker(queue: MessageQueue) -> str | None:
    """The room in a broker's name, if it is called ``room@name``: for ``Rooms.of_queue``."""
    return _room_in_name(queue.broker_name)


def _average(member: str, queues: Queues, members: Members) -> list[MessageQueue]:
    index = _index(member, queues, members)
    if index is None:
        return []
    even, left_over = divmod(len(queues), len(members))
    start = even * index + min(index, left_over)
    return list(queues[start : start + even + (index < left_over)])


def _circle(member: str, queues: Queues, members: Members) -> list[MessageQueue]:
    index = _index(member, queues, members)
    return [] if index is None else list(queues[index :: len(members)])


#: Blocks of neighbouring queues, as even as it goes; the first members get one more.
AVERAGE: Final = Strategy("AVG", _average)

#: Dealt out like cards: the first queue to the first member, the second to the second.
CIRCLE: Final = Strategy("AVG_BY_CIRCLE", _circle)


def _index(member: str, queues: Queues, members: Members) -> int | None:
    if not member:
        raise AssignmentFailed("whose queues? the member's id is empty")
    if not queues:
        raise AssignmentFailed("there are no queues to share out")
    if not members:
        raise AssignmentFailed("there are no members to share queues out to")
    # Whom the broker does not list, the others do not count: they take its share.
    return members.index(member) if member in members else None


def _ring(members: Members, virtual_nodes: int, hash_of: HashOf) -> dict[int, str]:
    ring: dict[int, str] = {}
    nodes: Counter[str] = Counter()
    for member in members:
        # An id that is listed twice goes on counting where it stopped, as in RocketMQ.
        first = nodes[member]
        for number in range(first, first + virtual_nodes):
            place = hash_of(f"{member}-{number}")
            if (pushed_out := ring.get(place)) is not None:
                nodes[pushed_out] -= 1
            ring[place] = member
            nodes[member] += 1
    return ring


def _text_of(queue: MessageQueue) -> str:
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name},"
        f" queueId={queue.queue_id}]"
    )


def _room_in_name(broker_name: str) -> str | None:
    # Java's split, which drops empty parts at the end.
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def _queues_by_room(queues: Queues, rooms: Rooms) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        room = rooms.of_queue(queue)
        if not room:
            raise AssignmentFailed(f"in which room is broker {queue.broker_name!r}?")
        found.setdefault(room, []).append(queue)
    return found


def _members_by_room(members: Members, rooms: Rooms) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for member in members:
        room = rooms.of_member(member)
        if not room:
            raise AssignmentFailed(f"in which room is member {member!r}?")
        found.setdefault(room, []).append(member)
    return found


def _nearest(room: str, manned: Sequence[str], distance: Distance) -> str:
    far = {other: distance(room, other) for other in manned}
    for other, length in far.items():
        if math.isnan(length):
            raise AssignmentFailed(f"how far is it from room {room!r} to room {other!r}?")
    return min(manned, key=lambda other: far[other])


def _units(text: str) -> bytes:
    # Java compares UTF-16 units, in which rare letters come before some that Python puts first.
    return text.encode("utf-16-be", "surrogatepass")
