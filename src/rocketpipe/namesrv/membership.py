"""Brokers come, stay and go: the route table and the watch over them, kept in step."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.namesrv.events import EventLog
from rocketpipe.namesrv.liveness import Liveness
from rocketpipe.namesrv.route_table import (
    Announcement,
    Member,
    Registered,
    RegistrationRefused,
    RouteTable,
)
from rocketpipe.remoting.connection import PeerConnection

log = logging.getLogger(__name__)

_SHOWN_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class SmallestIdChanged:
    """Another broker of a name has the smallest id now."""

    broker_name: str
    #: The one that is gone; None if it is another that came.
    gone: str | None
    #: Where the one that came takes followers.
    ha_address: str | None


class Membership:
    """Which brokers there are, from their registration to their end."""

    def __init__(
        self,
        routes: RouteTable,
        clock: Clock,
        on_smallest_id: Callable[[SmallestIdChanged], None] = lambda _: None,
    ) -> None:
        self._routes = routes
        self._clock = clock
        self._alive: Liveness[PeerConnection] = Liveness()
        self._on_smallest_id = on_smallest_id
        self._events = EventLog(log, clock)

    def register(
        self, told: Announcement, peer: PeerConnection, timeout_ms: int | None
    ) -> Registered:
        """Take what a broker says of itself on its connection, and watch it from now on.

        Raises:
            RegistrationRefused: If the table cannot take it; a broker that was known stays.
        """
        now_ms = self._clock.monotonic_ms()
        try:
            outcome = self._routes.register(told)
        except RegistrationRefused as error:
            known = self._routes.member(told.address)
            if known is not None and known.name == told.name:
                self._alive.beat(told.address, now_ms)
            self._say(logging.WARNING, told, "registration refused", "reason=%s", error)
            raise
        for member in outcome.displaced:
            self._alive.forget(member.address)
            self._tell_displaced(member, told)
        if not outcome.taken:
            reason = (
                "another leads this name in a later epoch: stop this one, or give it a new name"
            )
            self._say(logging.WARNING, told, "registration ignored", "reason=%s", reason)
            return outcome
        self._alive.registered(told.address, peer, timeout_ms, now_ms)
        if outcome.fresh:
            self._say(logging.INFO, told, "broker registered", "topics=%d", len(told.topics))
        if outcome.left_out:
            shown = ", ".join(repr(name[:80]) for name in outcome.left_out[:_SHOWN_NAMES])
            self._events.say(
                logging.WARNING,
                f"names of {told.address}",
                "topics left out for their names broker=%s count=%d names=%s",
                told.name,
                len(outcome.left_out),
                shown,
            )
        if outcome.smallest_changed:
            self._on_smallest_id(SmallestIdChanged(told.name, None, told.ha_address))
        return outcome

    def _tell_displaced(self, member: Member, told: Announcement) -> None:
        """Tell who gave way; two that push each other out have the same epoch, or none."""
        epochs = member.version.state_version, told.version.state_version
        if member.address == told.address or epochs[0] != epochs[1]:
            self._say(logging.INFO, member, "broker displaced", "by=%s", told.address)
        else:
            hint = "if both run, stop one, or give it another brokerName or brokerId"
            self._say(logging.WARNING, member, "broker displaced", "by=%s: %s", told.address, hint)

    def unregister(self, cluster: str, name: str, address: str) -> None:
        """Let a broker go that says goodbye; one that is not known is gone already."""
        member = self._routes.member(address)
        if member is not None and (member.cluster, member.name) == (cluster, name):
            self._alive.forget(address)
            self._remove(address, logging.INFO, "broker unregistered")

    def beat(self, cluster: str, address: str) -> Member | None:
        """Note that a broker was heard of; gives who it is, if it is known."""
        member = self._routes.member(address)
        if member is None or member.cluster != cluster:
            return None
        self._alive.beat(address, self._clock.monotonic_ms())
        return member

    def lose(self, peer: PeerConnection) -> None:
        """A connection ended; if it was a broker's, so did the broker."""
        for address in self._alive.take_lost(peer):
            self._remove(address, logging.WARNING, "broker lost")

    def expire(self) -> None:
        """Let go of the brokers that have been silent too long, and of their connections."""
        for silent in self._alive.take_silent(self._clock.monotonic_ms()):
            self._remove(silent.address, logging.WARNING, "broker expired")
            silent.peer.close()

    def _remove(self, address: str, level: int, event: str) -> None:
        member = self._routes.unregister(address)
        assert member is not None, "who is watched is in the table"
        self._say(level, member, event)
        rest = self._routes.members(member.name)
        if rest and member.broker_id < min(rest) and self._routes.is_acting(member.name):
            self._on_smallest_id(SmallestIdChanged(member.name, address, None))

    def _say(
        self, level: int, broker: Member | Announcement, event: str, more: str = "", *facts: object
    ) -> None:
        self._events.say(
            level,
            broker.address,
            f"{event} name=%s id=%d address=%s cluster=%s {more}".rstrip(),
            broker.name,
            broker.broker_id,
            broker.address,
            broker.cluster,
            *facts,
        )
