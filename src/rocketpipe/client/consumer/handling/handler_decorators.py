"""Marks by which an application says what handles which topic, as all push consumers have them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, overload

from rocketpipe.client.consumer.received import ReceivedMessage


class HandlesOne(Protocol):
    """An object that handles messages one by one."""

    def handle(self, message: ReceivedMessage, /) -> object: ...


class HandlesMany(Protocol):
    """An object that handles messages by the list."""

    def handle(self, messages: list[ReceivedMessage], /) -> object: ...


TakesOne: TypeAlias = Callable[[ReceivedMessage], object] | HandlesOne
TakesMany: TypeAlias = Callable[[list[ReceivedMessage]], object] | HandlesMany

#: A function, an object, or a class of such objects that needs no arguments.
OneT = TypeVar("OneT", bound=TakesOne | Callable[[], TakesOne])
ManyT = TypeVar("ManyT", bound=TakesMany | Callable[[], TakesMany])


class HandlerDecorators(ABC):
    """The part of a consumer that takes handlers."""

    @abstractmethod
    def subscribe(
        self,
        topic: str,
        target: object,
        *,
        tags: str | None = None,
        sql: str | None = None,
        batch: int | None = None,
    ) -> None:
        """Have a topic handled, as ``on`` does without being a decorator.

        Raises:
            InvalidName, FilterError, ValueError, TypeError: As for ``on``.
        """

    @overload
    def on(
        self, topic: str, *, tags: str | None = None, sql: str | None = None, batch: None = None
    ) -> Callable[[OneT], OneT]: ...

    @overload
    def on(
        self, topic: str, *, tags: str | None = None, sql: str | None = None, batch: int
    ) -> Callable[[ManyT], ManyT]: ...

    def on(
        self,
        topic: str,
        *,
        tags: str | None = None,
        sql: str | None = None,
        batch: int | None = None,
    ) -> Callable[[Any], Any]:
        """Mark what handles a topic: a function, an object, or a class of such objects.

        All messages are wanted unless ``tags`` (``A || B``) or ``sql`` chooses. With ``batch`` the
        handler gets lists of up to so many messages, else one message at a time. What is marked
        stays what it was.

        Raises:
            InvalidName: If no topic may have this name.
            FilterError: If the expression does not compile.
            ValueError: If the topic has a handler, or the consumer runs already.
            TypeError: If what is marked cannot be called with a message.
        """
        if not isinstance(topic, str):
            raise TypeError(f"{topic!r} is no topic: mark handlers with @consumer.on('orders')")

        def mark(target: Any) -> Any:
            self.subscribe(topic, target, tags=tags, sql=sql, batch=batch)
            return target

        return mark
