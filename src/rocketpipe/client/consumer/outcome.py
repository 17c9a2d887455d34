"""What a handler says about the messages it was given.

    returns None, True or anything else     done
    returns False, or raises                again later; ``sys.exit`` too: ``consumer.stop`` ends it
    returns or raises Retry(…)              again later, as it says
    returns DEAD_LETTER                     never again: to the dead letters

An ordered consumer tries again at once after a pause, and nothing behind is consumed meanwhile; any
other has the broker deliver the message again later, and goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketpipe.model.group import DELAYS_MS

#: Instead of another attempt: to the dead letters.
DEAD_LETTER: Final = -1


class Retry(Exception):
    """Ask for another attempt, by raising or by returning it.

    Raises:
        ValueError: If there is no such delay level, or a number is negative.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        delay_level: int = 0,
        pause_ms: int | None = None,
        done: int = 0,
    ) -> None:
        """Say when to try again, and from which message of a batch on.

        ``delay_level`` is 0 for the broker's own ladder (10 s, 30 s, 1 m …), a level from 1 on, or
        ``DEAD_LETTER``. ``pause_ms`` is for ordered consumers: how long the queue rests. ``done``
        of a batch's first messages need no other attempt.
        """
        super().__init__(reason or "the handler asks for another attempt")
        if not DEAD_LETTER <= delay_level <= len(DELAYS_MS):
            raise ValueError(
                f"delay level {delay_level}: 0 leaves it to the broker, -1 is the dead letters, "
                f"and levels go to {len(DELAYS_MS)}"
            )
        if done < 0 or (pause_ms is not None and pause_ms < 0):
            raise ValueError("neither done nor pause_ms can be negative")
        self.delay_level = delay_level
        self.pause_ms = pause_ms
        self.done = done


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch: so many of its first messages are done, the others come again."""

    done: int
    delay_level: int = 0
    pause_ms: int | None = None
    #: What the handler raised, if it was not ``Retry``: something that its author did not foresee.
    error: BaseException | None = None
    reason: str = ""

    @classmethod
    def of(cls, said: object, count: int) -> Outcome:
        """Read what a handler returned, or raised, for a batch of ``count``."""
        if said is None:
            return cls(count)
        if isinstance(said, Retry):
            done = min(said.done, count)
            return cls(done, said.delay_level, said.pause_ms, reason=str(said))
        if isinstance(said, SystemExit):
            return cls(0, error=said, reason=f"SystemExit: {said}; consumer.stop() ends consuming")
        if isinstance(said, BaseException):
            return cls(0, error=said, reason=f"{type(said).__name__}: {said}")
        if said is False:
            return cls(0, reason="the handler returned False")
        if type(said) is int and said == DEAD_LETTER:
            return cls(0, DEAD_LETTER, reason="the handler gave it up")
        return cls(count)
