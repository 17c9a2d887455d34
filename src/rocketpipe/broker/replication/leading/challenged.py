"""A connection to the port for followers, until it is known that a follower is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, cast

from rocketpipe.auth.gate import Gate, host_of
from rocketpipe.auth.policy import is_from
from rocketpipe.auth.secret import Secret
from rocketpipe.broker.replication.challenge import MAGIC, PATIENCE_S, LeaderAsks, NotProven
from rocketpipe.clock import Clock
from rocketpipe.remoting.accepting import address_text

#: How often it looks whether those who follow still may.
WATCH_EVERY_MS: Final = 1000


class Doorkeeper:
    """Says who may follow: those who ask as a user that may do everything."""

    def __init__(self, gate: Gate, plain_from: Sequence[str] = ()) -> None:
        """``plain_from`` are addresses that need not prove anything: Apache's brokers cannot.

        Who comes from there and can, has to.
        """
        self._gate = gate
        self._plain_from = tuple(plain_from)
        #: As whom each follows.
        self._following: dict[asyncio.Transport, str] = {}

    def takes_plain(self, address: str) -> bool:
        """Whether one from there is let in as it is."""
        host = host_of(address)
        return any(is_from(host, each) for each in self._plain_from)

    def secrets_of(self, name: str) -> list[Secret]:
        """By which secrets a user may prove that it is itself, if it may follow."""
        self._gate.users.look()
        user = self._gate.users.get(name)
        return self._gate.secrets_of(user) if user is not None and user.is_super else []

    def refused(self, address: str, name: str, reason: str) -> None:
        """Count, and tell, who was not let in."""
        self._gate.failures.failed(host_of(address), "no follower")
        self._gate.audit.refused(name[:64], address, "follow", "", reason)

    def entered(self, address: str, name: str, transport: asyncio.Transport) -> None:
        """Tell who was."""
        self._gate.audit.did(name, address, "follow", "")
        self._following[transport] = name

    async def keep_watching(self, clock: Clock) -> NoReturn:
        """Have those go who could not come any more: a follower asks once, and is then told all."""
        seen = self._gate.users.version
        while True:
            await clock.sleep(WATCH_EVERY_MS)
            self._forget_gone()
            if self._gate.users.version is not seen:
                seen = self._gate.users.version
                self.dismiss()

    def dismiss(self) -> None:
        """End the connections of those who may follow no more."""
        for transport, name in list(self._following.items()):
            if not self.secrets_of(name):
                del self._following[transport]
                address = address_text(transport.get_extra_info("peername"))
                self.refused(address, name, "it may follow no more")
                transport.abort()

    def _forget_gone(self) -> None:
        for transport in [each for each in self._following if each.is_closing()]:
            del self._following[transport]


class Challenged(asyncio.Protocol):
    """Asks for a proof, and hands the connection on to whom it is for."""

    def __init__(
        self,
        peer: asyncio.Protocol,
        keeper: Doorkeeper,
        *,
        entered: Callable[[], None],
        refuse: Callable[[str, str], None],
    ) -> None:
        """``refuse`` is told the address and the reason, if nobody who may follow has come.

        ``entered`` is told if somebody has.
        """
        self._peer = peer
        self._keeper = keeper
        self._refuse = refuse
        self._entered = entered
        self._asks = LeaderAsks(keeper.secrets_of)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._address = "unconnected"
        self._is_over = False
        self._takes_plain = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._address = address_text(transport.get_extra_info("peername"))
        self._takes_plain = self._keeper.takes_plain(self._address)
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._late)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        assert self._transport is not None
        if self._takes_plain and not data.startswith(MAGIC[: len(data)]):
            self._hand_on(data)
            return
        self._takes_plain = False  # it can prove who it is, and so it has to
        try:
            sent, rest = self._asks.receive(data)
        except NotProven as error:
            self._fail(str(error))
            return
        if sent:
            self._transport.write(sent)
        if rest is not None:
            self._keeper.entered(self._address, self._asks.name, self._transport)
            self._hand_on(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._end():
            self._refuse(self._address, "it left before it had proven who it is")

    def abort(self) -> None:
        """End it at once, without a word."""
        if self._end() and self._transport is not None:
            self._transport.abort()

    def _hand_on(self, rest: bytes) -> None:
        self._end()
        self._entered()
        transport: Any = self._transport
        transport.set_protocol(self._peer)
        self._peer.connection_made(transport)
        if rest:
            self._peer.data_received(rest)

    def _late(self) -> None:
        if self._takes_plain:
            self._hand_on(b"")  # Apache's say nothing before they have to
            return
        self._fail(f"no proof of who it is within {PATIENCE_S:g} s")

    def _fail(self, reason: str) -> None:
        if self._end():
            assert self._transport is not None
            self._keeper.refused(self._address, self._asks.name, reason)
            self._refuse(self._address, reason)
            self._transport.abort()

    def _end(self) -> bool:
        """True the first time."""
        if self._timer is not None:
            self._timer.cancel()
        first, self._is_over = not self._is_over, True
        return first
