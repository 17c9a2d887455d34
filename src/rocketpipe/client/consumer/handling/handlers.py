"""An application's handlers: functions or objects, that wait or block, by the topic they are for.

What blocks runs in threads of the consumer's own, as many as it may consume at a time; they begin
with the first such call and end with the consumer.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final

from rocketpipe.client.consumer.handling.handler_stats import HandlerStats
from rocketpipe.client.consumer.handling.stepping import Begun
from rocketpipe.client.consumer.handling.trace import HandlingTrace
from rocketpipe.client.consumer.outcome import Outcome
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.observers import Processing
from rocketpipe.filter.sql_eval import compile_sql
from rocketpipe.filter.tags import parse_tags
from rocketpipe.model.names import check_topic
from rocketpipe.model.subscription import SQL92, TAG, Subscription

#: As RocketMQ's clients allow.
MAX_BATCH: Final = 1024

#: Takes one message, or a list of them; returns what ``outcome`` lists, or an awaitable of it.
Handle = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """What consumes one topic, and which of its messages it wants."""

    topic: str
    subscription: Subscription
    handle: Handle
    #: How many messages one call gets at most; None: one, and not as a list.
    batch: int | None
    waits: bool

    @property
    def count(self) -> int:
        """How many messages one call gets at most."""
        return self.batch or 1


def handler(
    topic: str, target: Any, *, tags: str | None, sql: str | None, batch: int | None
) -> Handler:
    """Check what an application gives as its handler.

    ``target`` is a function, an object that can be called or has a method ``handle``, or a class of
    such objects that needs no arguments.

    Raises:
        InvalidName: If no topic may have this name.
        FilterError: If the expression does not compile.
        ValueError: If there are both tags and SQL, or no such batch can be.
        TypeError: If ``target`` is nothing that could be called with a message.
    """
    check_topic(topic)
    if batch is not None and not 1 <= batch <= MAX_BATCH:
        raise ValueError(f"batch {batch}: it goes from 1 to {MAX_BATCH}")
    handle = _callable(target)
    return Handler(topic, subscription_to(topic, tags=tags, sql=sql), handle, batch, _waits(handle))


def subscription_to(
    topic: str, *, tags: str | None = None, sql: str | None = None, version: int = 0
) -> Subscription:
    """What a group wants of a topic, as brokers are told.

    Raises:
        FilterError: If the expression does not compile.
        ValueError: If there are both tags and SQL.
    """
    if sql is not None:
        if tags is not None:
            raise ValueError(f"topic {topic!r}: choose by tags or by SQL, not by both")
        compile_sql(sql)
        return Subscription(topic=topic, expression=sql, expression_type=SQL92, version=version)
    chosen = parse_tags(tags)
    return Subscription(
        topic=topic,
        expression=chosen.expression,
        expression_type=TAG,
        tags=chosen.tags,
        tag_codes=chosen.codes,
        version=version,
    )


#: A block that observers are told of, while a handler has these messages.
Observing = Callable[[Sequence[ReceivedMessage]], AbstractContextManager[Processing]]


class Handlers:
    """The handlers of one consumer, and the threads that the blocking ones need."""

    def __init__(self, threads: int, name: str, counts: HandlerStats | None = None) -> None:
        self._threads = threads
        self._name = name
        self._by_topic: dict[str, Handler] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._counts = counts
        #: Whom calls are told to, if to anybody.
        self.trace: HandlingTrace | None = None
        #: The same of the process, with the names of client and group.
        self.observing: Observing | None = None

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_topic.values())

    def __len__(self) -> int:
        return len(self._by_topic)

    def add(self, added: Handler) -> None:
        """Let a handler have its topic.

        Raises:
            ValueError: If the topic has one already.
        """
        if added.topic in self._by_topic:
            raise ValueError(
                f"topic {added.topic!r} has a handler already: one decides for all of its "
                f"messages; give another group to another purpose"
            )
        self._by_topic[added.topic] = added

    def of(self, topic: str) -> Handler | None:
        """The handler of a topic, if there is one."""
        return self._by_topic.get(topic)

    def call(
        self,
        chosen: Handler,
        messages: Sequence[ReceivedMessage],
        began_ms: int | None = None,
        begun: Begun | None = None,
    ) -> Awaitable[Outcome]:
        """Have messages handled, and tell what became of them; nothing is raised but cancelling.

        ``began_ms`` is the time now on the monotonic clock, for who has it already; ``begun`` is a
        call that took its first step, and is gone on with.
        """
        trace, observing = self.trace, self.observing
        if begun is not None or (trace is None and observing is None):
            return self._call(chosen, messages, began_ms, begun)
        if observing is not None:
            return self._call_observed(observing, chosen, messages)
        assert trace is not None, "else nobody is told"
        return self._call_and_tell(trace, chosen, messages)

    @property
    def is_watched(self) -> bool:
        """Whether each call is told to somebody."""
        return self.trace is not None or self.observing is not None

    def count(self, chosen: Handler, done: int, given: int, began_ms: int) -> None:
        """Note calls that began then, and are done with so many of the messages given to them."""
        if self._counts is not None:
            self._counts.count(chosen.topic, done, given, began_ms)

    async def _call_observed(
        self, observing: Observing, chosen: Handler, messages: Sequence[ReceivedMessage]
    ) -> Outcome:
        with observing(messages) as what:
            if self.trace is None:
                what.outcome = await self._call(chosen, messages)
            else:
                what.outcome = await self._call_and_tell(self.trace, chosen, messages)
        return what.outcome

    async def _call_and_tell(
        self, trace: HandlingTrace, chosen: Handler, messages: Sequence[ReceivedMessage]
    ) -> Outcome:
        told = trace.before(messages)
        outcome = await self._call(chosen, messages)
        trace.after(told, outcome)
        return outcome

    async def _call(
        self,
        chosen: Handler,
        messages: Sequence[ReceivedMessage],
        began_ms: int | None = None,
        begun: Begun | None = None,
    ) -> Outcome:
        count = len(messages)
        assert 0 < count <= (chosen.batch or 1)
        given: Any = messages[0] if chosen.batch is None else list(messages)
        if began_ms is None:
            began_ms = self._counts.now_ms() if self._counts is not None else 0
        try:
            if begun is not None:
                said = await begun.end()
            elif chosen.waits:
                said = await chosen.handle(given)
            else:
                said = await in_thread(self._executor(), chosen.handle, given)
                if inspect.isawaitable(said):
                    said = await said
        except (Exception, SystemExit) as error:
            # To end the process is not for a handler: others are at work, and nothing is saved.
            return self._ended(chosen, Outcome.of(error, count), count, began_ms)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Something that the handler waited for was cancelled, not we.
            return self._ended(chosen, Outcome.of(error, count), count, began_ms)
        return self._ended(chosen, Outcome.of(said, count), count, began_ms)

    def _ended(self, chosen: Handler, outcome: Outcome, count: int, began_ms: int) -> Outcome:
        self.count(chosen, outcome.done, count, began_ms)
        return outcome

    def close(self) -> None:
        """Let the threads go, each when it is done with what it has."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
        return self._pool


async def in_thread(pool: ThreadPoolExecutor | None, handle: Handle, given: Any) -> Any:
    """Call what blocks in a thread, of the loop's own pool if none is given.

    Raises:
        Exception: Whatever it raises.
    """

    def call() -> tuple[Any, BaseException | None]:
        # Futures cannot carry StopIteration: with it the one who waits would wait for ever.
        try:
            return handle(given), None
        except (Exception, SystemExit) as error:
            return None, error

    # With the context of who waits: a trace goes on in the thread.
    run = functools.partial(copy_context().run, call)
    said, error = await asyncio.get_running_loop().run_in_executor(pool, run)
    if error is not None:
        raise error
    return said


def runs(messages: Sequence[ReceivedMessage], counts: Handlers) -> Iterable[list[ReceivedMessage]]:
    """Cut messages into what one call of a handler gets: one topic, and no more than it takes."""
    run: list[ReceivedMessage] = []
    topic, most = "", 0
    for message in messages:
        if run and (len(run) >= most or message.topic != topic):
            yield run
            run = []
        if not run:
            topic = message.topic
            chosen = counts.of(topic)
            most = chosen.count if chosen is not None else 1
        run.append(message)
    if run:
        yield run


def _callable(target: Any) -> Handle:
    made = target
    if inspect.isclass(target):
        try:
            made = target()
        except TypeError as error:
            raise TypeError(
                f"handler class {target.__name__}: {error}; give an object of it instead"
            ) from error
    handle = getattr(made, "handle", None)
    found: Any = handle if callable(handle) else made
    if not callable(found):
        raise TypeError(f"{target!r} is no handler: it can neither be called nor has it a `handle`")
    _check_takes_one(found)
    return found  # type: ignore[no-any-return]


def _check_takes_one(handle: Handle) -> None:
    """Refuse here what would fail for each message, or seem to be done with it and do nothing."""
    name = getattr(handle, "__qualname__", repr(handle))
    inner = handle.func if isinstance(handle, functools.partial) else handle
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError(f"handler {name} has a `yield`, so a call of it does nothing: take it out")
    try:
        taken = inspect.signature(handle)
    except (TypeError, ValueError):
        return  # of some built-in functions nobody knows
    try:
        taken.bind(None)
    except TypeError as error:
        raise TypeError(f"handler {name}{taken} is called with one message: {error}") from None


def _waits(handle: Handle) -> bool:
    while isinstance(handle, functools.partial):
        handle = handle.func
    called = getattr(handle, "__call__", None)  # noqa: B004 - of an object, its class's method
    return inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(called)
