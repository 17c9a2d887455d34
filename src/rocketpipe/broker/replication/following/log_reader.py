"""Reads a leader's log over its HA port without following it: for mending, beside any loop.

    handshake as a reader → hello → the first report says from where → transfers, as long as wanted

A reader takes part in nothing: nobody waits for it, and what it reports counts for nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Final

from rocketpipe.auth.credentials import Credentials
from rocketpipe.broker.replication.challenge import FollowerAnswers
from rocketpipe.broker.replication.epochs import EpochEntry, EpochTable
from rocketpipe.broker.replication.frames import (
    READER_ID,
    Dialect,
    FollowerSide,
    HaProtocolError,
    LeaderHello,
    Transfer,
)
from rocketpipe.errors import StoreError
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.tls import ClientTls
from rocketpipe.remoting.tls_settings import TlsSettings

#: How long a leader may be silent.
READ_TIMEOUT_S: Final = 10.0
_READ_BYTES: Final = 256 << 10
#: How often a leader hears how far it was read: it sends only so much that nobody told of.
_REPORT_BYTES: Final = 4 << 20


class LeaderUnread(StoreError):
    """A leader's log cannot be read now."""

    retryable = True


class LeaderLog:
    """The log of a running leader, by its HA address; close it."""

    def __init__(
        self,
        address: str,
        mine: EpochTable | None,
        mine_end: int,
        tls: TlsSettings | None = None,
        proves_to: Callable[[str], Credentials | None] = lambda _: None,
    ) -> None:
        """Connect, and see up to where both logs are one, by the epochs of ``mine``.

        Raises:
            LeaderUnread: It does not answer, or not as leaders do.
        """
        self.name = address
        self._host, self._port = split_address(address)
        self._tls = None if tls is None else ClientTls(tls)
        self._proves_to = proves_to
        self._socket: socket.socket | None = None
        self._side = FollowerSide(Dialect.EPOCHS)
        #: What came and was not asked for yet, and the offset of its first byte.
        self._ahead = bytearray()
        self._at = self._reported = -1
        hello = self._connect()
        #: Where its log ended when it was reached.
        self.end = hello.log_end
        self.same_to = common_end(mine, mine_end, hello.entries, hello.log_end)

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from an offset on, at most so many; none where it has no more, or never had.

        Raises:
            LeaderUnread: It does not answer.
        """
        if offset >= self.end:
            return b""
        size = min(size, self.end - offset)
        behind = offset - self._at
        if self._socket is not None and self._at >= 0 and 0 <= behind <= len(self._ahead):
            del self._ahead[:behind]
            self._at = offset
        elif not self._begin(offset):
            return b""
        while not self._ahead:
            self._receive()
        data = bytes(self._ahead[:size])
        del self._ahead[: len(data)]
        self._at += len(data)
        if self._at - self._reported >= _REPORT_BYTES:
            self._report(self._at)
        return data

    def _begin(self, offset: int) -> bool:
        """Have it send from an offset on; False if its log begins behind that."""
        if self._socket is None or self._at >= 0:
            self._connect()
        self._report(offset)
        while self._at < 0:
            self._receive()
        return self._at == offset

    def _report(self, offset: int) -> None:
        assert self._socket is not None
        self._reported = offset
        try:
            self._socket.sendall(self._side.report(offset))
        except OSError as error:
            raise self._failed(error) from error

    def _connect(self) -> LeaderHello:
        self.close()
        self._side = FollowerSide(Dialect.EPOCHS)
        self._ahead.clear()
        self._at = -1
        try:
            self._socket = socket.create_connection((self._host, self._port), READ_TIMEOUT_S)
            if self._tls is not None:
                self._socket = self._tls.wrapped(self._socket, self._host)
            if (credentials := self._proves_to(self._host)) is not None:
                self._prove(credentials)
            self._socket.sendall(self._side.handshake(READER_ID, learner=True))
            while True:
                for event in self._side.receive(self._received()):
                    if isinstance(event, LeaderHello):
                        return event
        except (OSError, HaProtocolError) as error:
            raise self._failed(error) from error

    def _prove(self, credentials: Credentials) -> None:
        """Have both sides show who they are."""
        assert self._socket is not None
        answers = FollowerAnswers(credentials)
        self._socket.sendall(answers.hello())
        while not answers.is_done:
            self._socket.sendall(answers.receive(self._received()))

    def _received(self) -> bytes:
        assert self._socket is not None
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("it closed the connection: it may lead no longer")
        return data

    def _receive(self) -> None:
        """Take in what comes next, which goes on where the last bytes ended."""
        try:
            for event in self._side.receive(self._received()):
                if isinstance(event, Transfer):
                    if self._at < 0:
                        self._at = event.offset
                    if event.offset != self._at + len(self._ahead):
                        raise HaProtocolError(f"bytes from {event.offset}, out of their order")
                    self._ahead += event.data
        except (OSError, HaProtocolError) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> LeaderUnread:
        self.close()
        return LeaderUnread(f"the leader's log at {self.name} cannot be read: {error}")


def common_end(
    mine: EpochTable | None, mine_end: int, theirs: Sequence[EpochEntry], their_end: int
) -> int | None:
    """Up to where two logs are one by their epochs; None if one of them has none.

    Two logs that both have some and share none have nothing in common: that is 0.
    """
    if mine is None or not mine.entries or not theirs:
        return None
    return mine.common_end(mine_end, theirs, their_end) or 0
