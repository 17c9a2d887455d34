"""A change that is written down, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from rocketpipe.console.answers import Problem
from rocketpipe.console.asking import Ask

ResultT = TypeVar("ResultT")


async def noted(ask: Ask, what: str, work: Awaitable[ResultT], outcome: str = "ok") -> ResultT:
    """Have something done for somebody, and note who, what, and how it went.

    Raises: whatever the work does; then that is what is noted.
    """
    client = ask.request.client
    address = client.host if client is not None else ""
    try:
        result = await work
    except Exception as error:
        ask.console.note(ask.person, address, what, f"failed: {error}", ok=False)
        raise
    ask.console.note(ask.person, address, what, outcome, ok=True)
    return result


def check_typed(typed: str, wanted: str) -> None:
    """See that somebody typed the name of what is to be changed for good.

    Raises:
        Problem: If it is another.
    """
    if typed != wanted:
        raise Problem(400, f"{typed!r} was typed, not {wanted!r}", "type the name to confirm")
