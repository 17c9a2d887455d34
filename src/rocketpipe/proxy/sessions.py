"""The gRPC clients that are there, each known by its id and by whom it is let in as.

A session begins with a client's first call. It is over when the client says so, or when it has no
telemetry stream and was silent for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from rocketpipe.clock import Clock
from rocketpipe.errors import CallTimeout, ConnectionLost
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.clients import HeartbeatData
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.streams import TelemetryStream
from rocketpipe.proxy.translation import commands
from rocketpipe.proxy.v2 import messaging_pb2 as pb

ReplyT = TypeVar("ReplyT")
SessionKey = tuple[str, str]


class Session:
    """One client: what it does, and the stream on which it can be asked things."""

    __slots__ = (
        "_nonces",
        "_waiting",
        "address",
        "client_id",
        "data",
        "is_over",
        "key",
        "language",
        "namespace",
        "peer",
        "request_timeout_ms",
        "seen_ms",
        "settings",
        "stream",
    )

    def __init__(self, key: SessionKey, client_id: str, language: Language | None) -> None:
        self.key = key
        self.client_id = client_id
        self.language = language
        self.namespace = ""
        self.address = ""
        self.seen_ms = 0
        #: What it told of itself, once it has; and what brokers are told of that.
        self.settings: pb.Settings | None = None
        self.data: HeartbeatData | None = None
        self.request_timeout_ms = 3000
        self.stream: TelemetryStream | None = None
        #: Whatever a backend keeps of it.
        self.peer: Any = None
        self.is_over = False
        self._nonces = count(1)
        self._waiting: dict[str, asyncio.Future[pb.TelemetryCommand]] | None = None

    # What brokers have of it

    @property
    def is_slow(self) -> bool:
        """Whether it does not take what it is told."""
        return self.stream is not None and self.stream.is_slow

    def tell(self, request: Request[Any]) -> None:
        """Hand it what a broker tells one way; see ``backend.Client``."""
        command = commands.told(request, self.namespace)
        if command is not None:
            self._open_stream().put(command)

    async def answer(self, request: Request[ReplyT], timeout_ms: int) -> ReplyT:
        """Have it answer what a broker asks; see ``backend.Client``."""
        question = commands.question(request, self.settings)
        if question.command is None:
            return question.read(None)
        stream = self._open_stream()
        nonce = f"{self.client_id[:64]}-{next(self._nonces)}"
        answer: asyncio.Future[pb.TelemetryCommand] = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = {}
        self._waiting[nonce] = answer
        try:
            stream.put(question.with_nonce(nonce))
            async with asyncio.timeout(timeout_ms / 1000):
                return question.read(await answer)
        except TimeoutError:
            name = type(request).__name__
            raise CallTimeout(self.address, name, timeout_ms) from None
        finally:
            self._waiting.pop(nonce, None)

    # What its telemetry stream brings

    def answered(self, nonce: str, command: pb.TelemetryCommand) -> None:
        """Take its answer to a question; what nobody asked is dropped."""
        waiting = self._waiting.get(nonce) if self._waiting else None
        if waiting is not None and not waiting.done():
            waiting.set_result(command)

    def opened(self, stream: TelemetryStream) -> None:
        """It has this stream now; one that it had before ends."""
        before, self.stream = self.stream, stream
        if before is not None:
            before.close()

    def closed(self, stream: TelemetryStream) -> None:
        """A stream of its ended."""
        if self.stream is stream:
            self.stream = None

    def _open_stream(self) -> TelemetryStream:
        if self.stream is None:
            raise ConnectionLost(self.address, "the client has no telemetry stream now")
        return self.stream


class Sessions:
    """All of them."""

    def __init__(self, config: ProxyConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._sessions: dict[SessionKey, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def visit(
        self, user: str, client_id: str, address: str, namespace: str, language: Language | None
    ) -> Session:
        """The session of whoever calls; a new one for a client that was not there.

        Raises:
            Refused: There are too many.
        """
        key = (user, client_id)
        session = self._sessions.get(key)
        if session is None:
            if len(self._sessions) >= self._config.max_clients:
                raise Refused(
                    pb.TOO_MANY_REQUESTS,
                    f"{self._config.max_clients} clients are there: try again later",
                )
            session = self._sessions[key] = Session(key, client_id, language)
        session.address = address
        session.namespace = namespace
        session.seen_ms = self._clock.monotonic_ms()
        return session

    def end(self, session: Session) -> bool:
        """Forget a session; False if that was done before."""
        if session.is_over:
            return False
        session.is_over = True
        if self._sessions.get(session.key) is session:
            del self._sessions[session.key]
        if session.stream is not None:
            session.stream.close()
        return True

    def silent(self) -> list[Session]:
        """Those that are gone without a word."""
        before_ms = self._clock.monotonic_ms() - self._config.silent_client_ms
        return [
            session
            for session in self._sessions.values()
            if session.stream is None and session.seen_ms < before_ms
        ]

    def all(self) -> list[Session]:
        """Everybody."""
        return list(self._sessions.values())

    def find(self, wanted: Callable[[Session], bool]) -> Session | None:
        """Somebody like that, if there is one."""
        return next((each for each in self._sessions.values() if wanted(each)), None)
