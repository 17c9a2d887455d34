"""Who leads the brokers of a name, where that changes: as NameServers and brokers say.

A broker that refuses because it does not lead may name who does. Until NameServers have heard of it
they go on naming the old one, or nobody; so what it said stands in for that:

    NameServers say        a broker said             taken
    0: old, 1: new         old: the leader is new    new
    1: new                 old: the leader is new    new
    0: other, 1: old       old: the leader is new    other
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from rocketpipe.clock import Clock
from rocketpipe.errors import ConnectionLost, NoRoute, RequestRejected, RocketPipeError
from rocketpipe.model.route import LEADER_ID, BrokerAddresses
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.refusals import lacks_replicas

ValueT = TypeVar("ValueT")

#: So long a broker's word counts against that of NameServers: they are told every 30 seconds.
WORD_MS: Final = 30_000

#: So long messages wait for a new leader of a queue that was chosen by what is in them.
AWAITED_MS: Final = 30_000

MAX_NAMES: Final = 4096

#: SLAVE_NOT_AVAILABLE is how RocketMQ's followers refuse the end of a transaction.
_NOT_LEADING: Final = frozenset(
    {ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SLAVE_NOT_AVAILABLE}
)


def is_moved(error: RocketPipeError) -> bool:
    """Whether an error says that the leader is gone, or another: time to look for it."""
    if isinstance(error, RequestRejected):
        return error.code in _NOT_LEADING
    return isinstance(error, (ConnectionLost, NoRoute))


def awaits_leader(error: RocketPipeError) -> bool:
    """Whether an error is because a broker has no leader now, or that one no replicas."""
    if isinstance(error, RequestRejected) and lacks_replicas(error.code, error.remark):
        return True
    return is_moved(error)


@dataclass(slots=True)
class _Word:
    """What a broker said of who leads its name."""

    #: Those who said that they do not.
    refused: set[str]
    leader: str
    until_ms: int


class Leaders:
    """What is known of leaders beside routes, by the brokers' name; of too many the oldest goes."""

    def __init__(self, clock: Clock, *, max_names: int = MAX_NAMES) -> None:
        self._clock = clock
        self._max_names = max_names
        self._words: dict[str, _Word] = {}
        #: Of each name that had a leader, since when routes name none; None while they do.
        self._led: dict[str, int | None] = {}

    def told(self, name: str, refused: str, leader: str) -> bool:
        """Take a broker's word that another leads; False if nothing new was said."""
        now_ms = self._clock.monotonic_ms()
        word = self._words.get(name)
        if word is not None and now_ms >= word.until_ms:
            word = None
        if leader == refused:
            return False
        others: set[str] = set()
        if word is not None:
            if refused != word.leader and (leader == word.leader or leader in word.refused):
                word.refused.add(refused)
                return False  # it is known, or known better
            others = word.refused - {leader}
        self._put(self._words, name, _Word(others | {refused}, leader, now_ms + WORD_MS))
        return True

    def failed(self, name: str, address: str) -> bool:
        """Give up a word if it is this one that does not lead after all; whether it was."""
        word = self._words.get(name)
        if word is None or word.leader != address:
            return False
        del self._words[name]
        return True

    def seen(self, broker: BrokerAddresses) -> BrokerAddresses:
        """Note what a NameServer says of a name; gives the same with the leader as it is known."""
        name, leader = broker.broker_name, broker.leader
        word = self._words.get(name)
        if word is not None:
            is_news = leader is not None and leader not in word.refused
            if is_news or self._clock.monotonic_ms() >= word.until_ms:
                del self._words[name]
            else:
                broker = with_leader(broker, word.leader)
                leader = word.leader
        if leader is not None:
            self._put(self._led, name, None)
        elif name in self._led and self._led[name] is None:
            self._led[name] = self._clock.monotonic_ms()
        return broker

    def is_awaited(self, name: str) -> bool:
        """Whether a name had a leader lately, so that another is about to be there."""
        if name not in self._led:
            return False
        since_ms = self._led[name]
        return since_ms is None or self._clock.monotonic_ms() - since_ms < AWAITED_MS

    def _put(self, table: dict[str, ValueT], name: str, value: ValueT) -> None:
        if name not in table:
            while len(table) >= self._max_names:
                del table[next(iter(table))]
        table[name] = value


def with_leader(broker: BrokerAddresses, leader: str) -> BrokerAddresses:
    """The same brokers with another leader; who led before is not one of them."""
    rest = {
        broker_id: address
        for broker_id, address in broker.addresses.items()
        if broker_id != LEADER_ID and address != leader
    }
    return msgspec.structs.replace(broker, addresses={LEADER_ID: leader, **rest})
