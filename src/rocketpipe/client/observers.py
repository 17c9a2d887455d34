"""Whoever is told of what clients do, as it happens: tracing above all.

An observer is given what is about to be done as a block, and may change what is sent: so the
context of a trace travels with a message. Without one nothing is paid.

    sending      a send, or a batch: the block ends when it is answered
    receiving    messages are asked for: the block ends when they are there
    processing   a handler has messages: the block is the time in which it has them
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from rocketpipe.model.message import Message


class Sent(Protocol):
    """What came of a send: a `SendResult`."""

    @property
    def message_id(self) -> str:
        """Its id."""
        ...

    @property
    def queue(self) -> Any:
        """Where it went."""
        ...


class Received(Protocol):
    """A message as consumers have it: a `ReceivedMessage`."""

    @property
    def topic(self) -> str:
        """Where it was sent to."""
        ...

    @property
    def message_id(self) -> str:
        """Its id."""
        ...

    @property
    def queue(self) -> Any:
        """Where it was read."""
        ...

    @property
    def tags(self) -> str | None:
        """Its tag, if it has one."""
        ...

    @property
    def keys(self) -> Sequence[str]:
        """By which it is found."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """All of them."""
        ...


class Ended(Protocol):
    """What a handler made of its messages."""

    @property
    def done(self) -> int:
        """How many of the first are done with."""
        ...

    @property
    def reason(self) -> str:
        """Why the others are not."""
        ...

    @property
    def error(self) -> BaseException | None:
        """What was raised, if anything."""
        ...


@dataclass(slots=True)
class Sending:
    """Messages of one topic that are sent together; who observes may put others in their place."""

    client_id: str
    group: str
    messages: list[Message]
    #: What came of it, at the end of the block.
    results: Sequence[Sent] = ()

    @property
    def topic(self) -> str:
        """Where they go."""
        return self.messages[0].topic


@dataclass(slots=True)
class Receiving:
    """Messages that somebody asks for."""

    client_id: str
    group: str
    #: What there was, at the end of the block.
    messages: Sequence[Received] = ()


@dataclass(slots=True)
class Processing:
    """Messages that a handler has: one, or the batch it asked for."""

    client_id: str
    group: str
    messages: Sequence[Received]
    #: What the handler made of them, at the end of the block.
    outcome: Ended | None = None


class Observer:
    """Sees nothing; a kind of it has those methods that it is interested in."""

    def sending(self, what: Sending) -> AbstractContextManager[object]:
        """A block around a send."""
        return nullcontext()

    def receiving(self, what: Receiving) -> AbstractContextManager[object]:
        """A block around asking for messages."""
        return nullcontext()

    def processing(self, what: Processing) -> AbstractContextManager[object]:
        """A block around a handler's call."""
        return nullcontext()


ReceivedT = TypeVar("ReceivedT", bound=Received)


@dataclass(slots=True)
class _Installed:
    observers: tuple[Observer, ...] = field(default=())


_everywhere = _Installed()


def install(observer: Observer) -> None:
    """Have an observer told of every client that is made from now on in this process."""
    _everywhere.observers = (*_everywhere.observers, observer)


def uninstall(observer: Observer) -> None:
    """Have it told no more of those that are made from now on."""
    _everywhere.observers = tuple(each for each in _everywhere.observers if each is not observer)


def observers_of(given: Iterable[Observer]) -> tuple[Observer, ...]:
    """Those that are told of a client: the installed ones, and those it was given."""
    return (*_everywhere.observers, *given)


class Observable(Protocol):
    """What a session has of it."""

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Those who are told."""
        ...

    @property
    def client_id(self) -> str:
        """What brokers call the client."""
        ...


async def receive_observed(
    session: Observable, group: str, asking: Awaitable[list[ReceivedT]]
) -> list[ReceivedT]:
    """Wait for messages, in a block that the session's observers are told of, if it has any."""
    if not session.observers:
        return await asking
    what = Receiving(session.client_id, group)
    with observed(session.observers, what):
        found = await asking
        what.messages = found
    return found


WhatT = TypeVar("WhatT", Sending, Receiving, Processing)


@contextmanager
def observed(observers: Sequence[Observer], what: WhatT) -> Iterator[WhatT]:
    """A block that all observers are told of; the last one is the innermost."""
    with ExitStack() as stack:
        for each in observers:
            if isinstance(what, Sending):
                stack.enter_context(each.sending(what))
            elif isinstance(what, Receiving):
                stack.enter_context(each.receiving(what))
            else:
                stack.enter_context(each.processing(what))
        yield what
