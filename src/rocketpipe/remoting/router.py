"""From a command to the method that answers it.

Methods are marked with the request they answer; a router is built from the marks when a server
starts. There is no switch and no global registry: a server decodes what its router serves.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from rocketpipe.errors import RemoteProtocolError, RequestRejected, RocketPipeError
from rocketpipe.protocol.codes import OUR_VERSION, Language, ResponseCode
from rocketpipe.protocol.command import Command, refusal
from rocketpipe.protocol.request import Request, from_command, to_reply
from rocketpipe.remoting.log_budget import LogBudget

if TYPE_CHECKING:
    from rocketpipe.remoting.connection import PeerConnection

log = logging.getLogger(__name__)

_failures = LogBudget()

ReplyT = TypeVar("ReplyT")
RequestT = TypeVar("RequestT", bound=Request[Any])
GroupT = TypeVar("GroupT")


@dataclass(slots=True)
class Call:
    """Who asks, and how the request looked on the wire."""

    peer: PeerConnection
    command: Command
    #: Who it is by the word of the port's guard; None where there is none.
    by: Any = None
    #: Whether it had to wait for something to come, as its handler says.
    waited: bool = False
    guard: Guard | None = None

    def check_again(self, asked: Request[Any]) -> None:
        """Refuse after a wait what was allowed before it, if it would not be now.

        Raises:
            RequestRejected: If who asks is let in no more, or has lost the right.
        """
        if self.guard is not None:
            self.guard.allow_still(self.by, asked)


class NotGuarded(RocketPipeError):
    """A server would answer requests of which nobody said what they need."""

    def __init__(self, requests: str) -> None:
        super().__init__(f"nothing is said of what these requests need: {requests}")


class Guard(Protocol):
    """Whoever says who is let in, and what they may do."""

    def check_served(self, kinds: Iterable[type[Request[Any]]]) -> None:
        """Refuse to guard requests of which nothing is known."""

    def admit(self, command: Command, peer: PeerConnection) -> Any:
        """Say who asks, or raise RequestRejected: nothing of the request was read yet."""

    def allow(self, by: Any, asked: Request[Any]) -> None:
        """Let them ask this, or raise RequestRejected."""

    def allow_still(self, by: Any, asked: Request[Any]) -> None:
        """The same for somebody who was admitted a while ago."""


#: Told of each request that was answered: with which code, whether it waited, and for how long.
Timed = Callable[[Command, int, bool, int], None]

Handler = Callable[[GroupT, RequestT, Call], Awaitable[ReplyT]]


class Ask(Protocol):
    """Answers a request that was read elsewhere, of somebody who was admitted elsewhere."""

    async def __call__(
        self, asked: Request[ReplyT], peer: PeerConnection, by: Any, language: Language | None
    ) -> ReplyT: ...


def handles(
    kind: type[RequestT],
) -> Callable[[Handler[GroupT, RequestT, ReplyT]], Handler[GroupT, RequestT, ReplyT]]:
    """Mark a method as the one that answers ``kind``."""

    def mark(method: Handler[GroupT, RequestT, ReplyT]) -> Handler[GroupT, RequestT, ReplyT]:
        method.handled_request = kind  # type: ignore[attr-defined]
        return method

    return mark


def handled_requests(group: type) -> list[type[Request[Any]]]:
    """The requests that the marked methods of a handler class answer."""
    return [kind for _, kind in _marked(group)]


#: A broker that changes its role builds routers from the same classes.
_MARKED: WeakKeyDictionary[type, list[tuple[str, type[Request[Any]]]]] = WeakKeyDictionary()


def _marked(group: type) -> list[tuple[str, type[Request[Any]]]]:
    marked = _MARKED.get(group)
    if marked is None:
        methods = inspect.getmembers(group, inspect.isfunction)
        marked = _MARKED[group] = [
            (name, method.handled_request)
            for name, method in methods
            if hasattr(method, "handled_request")
        ]
    return marked


class Router:
    """All the requests a server answers, built once from its handler groups."""

    def __init__(
        self, *groups: object, guard: Guard | None = None, timed: Timed | None = None
    ) -> None:
        self._guard = guard
        self._timed = timed
        self._methods: dict[
            int, tuple[type[Request[Any]], Callable[[Any, Call], Awaitable[Any]]]
        ] = {}
        for group in groups:
            for name, kind in _marked(type(group)):
                for code in kind.codes:
                    assert code not in self._methods, f"two methods answer {code!r}"
                    self._methods[code] = (kind, getattr(group, name))
        if guard is not None:
            guard.check_served(kind for kind, _ in self._methods.values())

    @property
    def codes(self) -> frozenset[int]:
        return frozenset(self._methods)

    async def ask(
        self, asked: Request[ReplyT], peer: PeerConnection, by: Any, language: Language | None
    ) -> ReplyT:
        """Answer a request that was read elsewhere, of somebody who was admitted elsewhere.

        Raises:
            RequestRejected: If it is refused, or not served.
        """
        code = asked.code
        found = self._methods.get(code)
        if found is None:
            raise RequestRejected(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request type {code} not supported"
            )
        if self._guard is not None:
            self._guard.allow_still(by, asked)
        command = Command(code=code, opaque=0, language=language, version=int(OUR_VERSION))
        reply: ReplyT = await found[1](asked, Call(peer, command, by, guard=self._guard))
        return reply

    async def answer(self, command: Command, peer: PeerConnection) -> Command:
        """Answer a command; whatever goes wrong becomes a refusal, never an exception."""
        guard, by = self._guard, None
        if guard is not None:
            try:
                by = guard.admit(command, peer)
            except RequestRejected as error:
                return refusal(command, error.code, error.remark)
        found = self._methods.get(command.code)
        if found is None:
            return refusal(
                command,
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                # Java peers show this text to their users; the leading blank is theirs.
                f" request type {command.code} not supported",
            )
        kind, method = found
        try:
            asked = from_command(kind, command)
            if guard is not None:
                guard.allow(by, asked)
            call = Call(peer, command, by, guard=guard)
            timed = self._timed
            if timed is None:
                return to_reply(command, await method(asked, call))
            began_ns = perf_counter_ns()
            reply = to_reply(command, await method(asked, call))
            timed(command, reply.code, call.waited, (perf_counter_ns() - began_ns) // 1_000_000)
            return reply
        except RequestRejected as error:
            return refusal(command, error.code, error.remark)
        except RemoteProtocolError as error:
            return refusal(command, ResponseCode.SYSTEM_ERROR, str(error))
        except Exception:
            if _failures.allows():
                log.exception(
                    "handler failed request=%s peer=%s%s",
                    kind.__name__,
                    peer.address,
                    _failures.suppressed(),
                )
            return refusal(
                command, ResponseCode.SYSTEM_ERROR, f"{kind.__name__} failed; the log says why"
            )
