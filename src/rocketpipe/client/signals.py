"""Ends a program's wait by Ctrl-C or SIGTERM, in order.

The first signal asks for the end, and gives the signals back to whoever had them: a second one does
what it would have done without this, which is what somebody wants who has lost patience.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TypeAlias

Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def first_signal(act: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Have the first SIGINT or SIGTERM inside the block do this; gives what tells if one came.

    Only the main thread hears signals: on another one nothing is changed. A signal that the
    process ignores, as what a shell runs in the background does with SIGINT, stays ignored.
    """
    came = False

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        give_back()
        act()

    def give_back() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is hear:
                signal.signal(number, handler)

    before = _ours_to_take()
    for number in before:
        signal.signal(number, hear)
    try:
        yield lambda: came
    finally:
        give_back()


def _ours_to_take() -> dict[int, Handler]:
    """Who hears each signal now, of those that may be heard here instead."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    # None is a handler that was not set from Python, so that Python could not put it back.
    return {
        number: handler
        for number, handler in found.items()
        if handler is not None and handler != signal.SIG_IGN
    }
