"""Which of the brokers that share a name a queue is read from.

    the one that the last answer suggested     id 0, which leads, unless it says otherwise
    or else, in place of a follower            the one with the next id
    or else                                    the leader, then followers by their ids

One that failed is left out for a while, ever longer while it goes on; if all have failed, they are
asked all the same. So who reads moves to a follower at once when the leader is gone, and comes back
when there is one. A follower may be behind: what it says of where the queue ends moves nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from rocketpipe.client.leaders import is_moved
from rocketpipe.client.session import Session
from rocketpipe.errors import CallTimeout, NoRoute, RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import LEADER_ID, MessageQueue, TopicRoute
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import PullMessageReply

FIRST_AVOIDED_MS: Final = 1000
LONGEST_AVOIDED_MS: Final = 16_000


class Replica(NamedTuple):
    """One broker that holds a queue."""

    address: str
    leads: bool


class ReplicaChoice:
    """Chooses for one queue, and learns from how that goes."""

    def __init__(self, session: Session, queue: MessageQueue) -> None:
        self._session = session
        self._queue = queue
        self._suggested = LEADER_ID
        #: Until when an address is left out, and for how long that was.
        self._avoided: dict[str, tuple[int, int]] = {}
        self._asked: Replica | None = None

    def next(self, route: TopicRoute | None = None) -> Replica:
        """The broker to ask next; without a route, the one that is remembered counts.

        Raises:
            NoRoute: If the route names no broker of the queue, or is not known.
        """
        self._asked = None
        addresses = self._session.addresses_of(self._queue, route)
        wanted = list(_in_turn(addresses, self._suggested))
        if not wanted:
            asked, name = str(self._session.name_servers), self._queue.broker_name
            raise NoRoute(self._queue.topic, asked, f"broker {name!r} cannot be read now")
        if self._avoided:
            known = frozenset(addresses.values())
            for address in [each for each in self._avoided if each not in known]:
                del self._avoided[address]
        self._asked = next((each for each in wanted if self._is_open(each)), wanted[0])
        return self._asked

    def answered(self, reply: PullMessageReply, asked_at: QueueOffset) -> QueueOffset | None:
        """Where to go on after an answer; None if nothing follows from it: ask another."""
        asked = self._asked
        assert asked is not None, "nobody was asked"
        if asked.leads:
            self._avoided.pop(asked.address, None)
        elif reply.code == ResponseCode.PULL_OFFSET_MOVED:
            self._avoid(asked.address)
            return None
        else:
            self._avoided.pop(asked.address, None)
        self._suggested = reply.suggest_which_broker_id
        following = reply.next_begin_offset
        return following if asked.leads else max(asked_at, following)

    def failed(self, error: RocketPipeError) -> bool:
        """Leave out the one that was asked; whether another can be asked at once."""
        asked, queue = self._asked, self._queue
        address = asked.address if asked is not None else None
        # What a follower says of leaders is hearsay, unless it says that it leads no more.
        self._session.routes.learn(queue.topic, queue.broker_name, address, error)
        self._suggested = LEADER_ID
        if asked is None:
            return False
        if asked.leads and not (is_moved(error) or isinstance(error, CallTimeout)):
            return False  # it is there, and that is its answer
        self._avoid(asked.address)
        return self.has_another

    @property
    def has_another(self) -> bool:
        """Whether there is a broker that did not fail lately."""
        addresses = self._session.addresses_of(self._queue)
        return any(map(self._is_open, _in_turn(addresses, LEADER_ID)))

    @property
    def is_at_follower(self) -> bool:
        """Whether the one that was asked last does not lead."""
        return self._asked is not None and not self._asked.leads

    def _avoid(self, address: str) -> None:
        now_ms = self._session.clock.monotonic_ms()
        _, lasted_ms = self._avoided.get(address, (0, 0))
        for_ms = min(max(2 * lasted_ms, FIRST_AVOIDED_MS), LONGEST_AVOIDED_MS)
        self._avoided[address] = (now_ms + for_ms, for_ms)

    def _is_open(self, replica: Replica) -> bool:
        until_ms, _ = self._avoided.get(replica.address, (0, 0))
        return self._session.clock.monotonic_ms() >= until_ms


def _in_turn(addresses: Mapping[int, str], suggested: int) -> Iterator[Replica]:
    ids = [suggested] if suggested == LEADER_ID else [suggested, suggested + 1]
    for broker_id in (*ids, *sorted(addresses)):
        if broker_id in addresses:
            yield Replica(addresses[broker_id], broker_id == LEADER_ID)
