"""Where the threads and tasks of this process are, for an operator who asks a client."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from itertools import islice
from types import FrameType
from typing import Final

MAX_STACKS: Final = 500
MAX_FRAMES: Final = 40
MAX_STACK_CHARS: Final = 1 << 20


def stack_text() -> str:
    """Where every thread of this process and every task of this loop is at the moment."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f'"thread {names.get(ident, "?")}" id={ident}\n{_frames(frame)}'
        # The one way there is, and documented for exactly this.
        for ident, frame in islice(sys._current_frames().items(), MAX_STACKS)  # noqa: SLF001
    ]
    for task in islice(asyncio.all_tasks(), MAX_STACKS):
        text = "".join(_frames(frame, 1) for frame in task.get_stack(limit=MAX_FRAMES))
        parts.append(f'"task {task.get_name()}"\n{text}')
    return "\n".join(parts)[:MAX_STACK_CHARS]


def _frames(frame: FrameType, limit: int = MAX_FRAMES) -> str:
    return "".join(
        f"    at {each.name} ({each.filename}:{each.lineno})\n"
        for each in reversed(traceback.extract_stack(frame, limit=limit))
    )
