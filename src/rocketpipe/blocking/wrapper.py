"""What every blocking client is made of: the asynchronous one, and calls that wait for it.

    class TopicAdmin(Face[AsyncTopicAdmin]):
        create = waits(AsyncTopicAdmin.create)

Signature and docstring are those of the asynchronous method, for readers and for type checkers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from rocketpipe.blocking.background import Life, shared

P = ParamSpec("P")
T = TypeVar("T")
InnerT = TypeVar("InnerT")


class Opens(Protocol):
    """An asynchronous client, as far as its life goes."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


OpensT = TypeVar("OpensT", bound=Opens)


class Blocking(Generic[InnerT]):
    """The blocking face of something asynchronous, for as long as a life lasts."""

    def __init__(self, inner: InnerT, life: Life) -> None:
        self._inner = inner
        self._life = life


class Client(Blocking[OpensT]):
    """A face that is used inside ``with``, or between ``open`` and ``close``, from any thread."""

    def __enter__(self) -> Self:
        loop = shared.begin(self._life)
        try:
            loop.run(self._inner.__aenter__())
        except BaseException:
            shared.end(self._life)
            raise
        return self

    if not TYPE_CHECKING:  # checkers say it by themselves

        async def __aenter__(self) -> Any:
            name = type(self).__name__
            raise TypeError(f"a blocking {name}: say `with`; rocketpipe has one for `async with`")

        async def __aexit__(self, *exc: object) -> None: ...

    @property
    def is_open(self) -> bool:
        """Whether it can be used now."""
        return self._life.loop is not None

    def open(self) -> Self:
        """Open it, as entering its ``with`` does, with the same errors."""
        return self.__enter__()

    def close(self) -> None:
        """Close it, as leaving its ``with`` does; to close what is closed is no error."""
        self.__exit__(None, None, None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop = self._life.loop
        if loop is None:
            return  # closed by hand before
        if not loop.is_ours:
            return  # a forked child: the parent has the connections, and closes them
        loop.check()
        try:
            loop.run(self._inner.__aexit__(kind, error, trace))
        finally:
            shared.end(self._life)


def blocking(
    method: Callable[Concatenate[InnerT, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[InnerT], P], T]:
    """The same method, blocking until its result is there.

    Beside its own errors it raises ``SessionClosed`` outside of the client's ``with``,
    ``ProcessForked`` in a child of the process that opened it, and ``LoopBlocked`` on the loop.
    """

    @functools.wraps(method)
    def wait(self: Blocking[InnerT], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._life.here().run(method(self._inner, *args, **kwargs))

    return wait


def passed_on(
    method: Callable[Concatenate[InnerT, P], T],
) -> Callable[Concatenate[Blocking[InnerT], P], T]:
    """The same method, which waits for nothing, called where nothing else can change meanwhile.

    That is on the loop while the client is open, and right here before and after.
    """

    @functools.wraps(method)
    def tell(self: Blocking[InnerT], /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop = self._life.loop
        if loop is None or loop.is_here:
            return method(self._inner, *args, **kwargs)

        async def on_loop() -> T:
            return method(self._inner, *args, **kwargs)

        return loop.run(on_loop())

    return tell
