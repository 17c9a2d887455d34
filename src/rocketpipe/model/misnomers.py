"""What people call a setting that is called something else here, so that a mistake gets a hint."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

ATTEMPTS: Final = "max_attempts"
#: RocketMQ's names for the one idea, and those of others.
MISNOMERS: Final = MappingProxyType(
    dict.fromkeys(
        ("max_retries", "retry_max_times", "max_reconsume_times", "max_retry_times"), ATTEMPTS
    )
)
#: What a name does not say by itself.
_MEANINGS: Final = MappingProxyType({ATTEMPTS: "it counts the first attempt too"})


def check_names(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Let names pass that are known.

    Raises:
        TypeError: Of the first that is not; it says which one was probably meant.
    """
    for name in given:
        if name not in known:
            right = meant_by(name, known)
            hint = "" if right is None else f": use {right}{meaning_of(right)}"
            raise TypeError(f"{what} has no {name!r}{hint}")


def meant_by(name: str, known: Collection[str]) -> str | None:
    """The known name that was probably meant by one that is not known."""
    right = MISNOMERS.get(name)
    if right in known:
        return right
    return next(iter(get_close_matches(name, known, 1)), None)


def meaning_of(name: str) -> str:
    """What a name does not say by itself, to be put behind it; mostly nothing."""
    meaning = _MEANINGS.get(name)
    return f" ({meaning})" if meaning else ""
