"""A follower's connection until both sides have proven who they are; then it is another's."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from rocketpipe.auth.credentials import Credentials
from rocketpipe.broker.replication.challenge import FollowerAnswers, NotProven
from rocketpipe.errors import ConnectionLost

_BYTES: Final = 4096


class Proving(asyncio.BufferedProtocol):
    """Answers the leader's challenge, and hands the connection on; ``proven`` tells when."""

    def __init__(
        self, peer: asyncio.BufferedProtocol, credentials: Credentials, address: str
    ) -> None:
        self._peer = peer
        self._address = address
        self._answers = FollowerAnswers(credentials)
        self._buffer = memoryview(bytearray(_BYTES))
        self._transport: asyncio.Transport | None = None
        #: Set to what went wrong, or to None.
        self.proven: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def abort(self) -> None:
        """End it at once."""
        self.proven.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._answers.hello())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        transport: Any = self._transport
        if self.proven.done():
            return
        try:
            sent = self._answers.receive(bytes(self._buffer[:nbytes]))
        except NotProven as error:
            self.proven.set_exception(error)
            transport.abort()
            return
        if sent:
            transport.write(sent)
        if self._answers.is_done:
            self.proven.set_result(None)
            transport.set_protocol(self._peer)
            self._peer.connection_made(transport)

    def eof_received(self) -> None:
        """Give up what the leader gave up."""

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.proven.done():
            reason = str(exc) if exc else "closed by the leader"
            self.proven.set_exception(
                ConnectionLost(
                    self._address,
                    f"{reason} before it had proven anything: it may not lead, know another secret "
                    "of the brokers, or have no access control; see its log",
                )
            )
