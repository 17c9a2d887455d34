"""Calls of a handler that are done without waiting, one after the other in one stretch.

A coroutine that comes to its end in its first step waited for nothing, and nobody else saw it run:
what is noted around a call, so that others know of it, is needed only for one that does wait. That
one is gone on with from where it is, in the task that began it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import CoroutineType, coroutine
from typing import Any, Protocol, TypeVar

from rocketpipe.client.consumer.outcome import Outcome
from rocketpipe.client.consumer.received import ReceivedMessage

T = TypeVar("T")


class Ends(Protocol):
    """What messages are of; see ``HeldQueue``."""

    #: Whether handlers are to be given nothing more.
    is_ending: bool


class Begun:
    """A call of a handler that waits for something."""

    __slots__ = ("_call", "_waits_for")

    def __init__(self, call: Coroutine[Any, Any, object], waits_for: object) -> None:
        self._call = call
        self._waits_for = waits_for

    async def end(self) -> object:
        """Wait for its end, in the task in which it began; gives what it returns.

        Raises:
            Exception: Whatever it raises.
        """
        return await _rest(self._call, self._waits_for)


def done_at_once(
    handle: Callable[[Any], Any], messages: Sequence[ReceivedMessage], at: int, of: Ends
) -> tuple[int, Outcome | Begun | None]:
    """Handle one message after the other, from ``at`` on, as long as each is done at once.

    Gives the place of the first that is not, and what became of that one: not done, or begun. It is
    None where they all are done, or where the queue that they are ``of`` ends.
    """
    for place in range(at, len(messages)):
        if of.is_ending:
            return place, None
        try:
            call = handle(messages[place])
            if type(call) is not CoroutineType:  # it says that it is one, and is something else
                call = _awaited(call)
            waits_for = call.send(None)
        except StopIteration as end:
            if end.value is not None:
                outcome = Outcome.of(end.value, 1)
                if not outcome.done:
                    return place, outcome
        except (Exception, SystemExit) as error:
            return place, Outcome.of(error, 1)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return place, Outcome.of(error, 1)
        else:
            return place, Begun(call, waits_for)
    return len(messages), None


async def _awaited(call: Any) -> object:
    return await call


@coroutine
def _rest(call: Coroutine[Any, Any, T], waits_for: object) -> Generator[object, Any, T]:
    """Await a coroutine that has taken its first step: the rest of what ``await`` does."""
    while True:
        try:
            sent = yield waits_for
        except GeneratorExit:
            call.close()
            raise
        except BaseException as error:
            raised: BaseException | None = error
        else:
            raised = None
        try:
            waits_for = call.send(sent) if raised is None else call.throw(raised)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            raised = None  # its frames are this one's: they would hold each other
