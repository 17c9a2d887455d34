"""A program with tasks, for real workers of taskiq's; it notes what it did in a file."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

from taskiq import SimpleRetryMiddleware

from rocketpipe.integrations.taskiq import RocketPipeBroker

NOTES = Path(os.environ.get("TASK_NOTES", "notes.jsonl"))

broker = RocketPipeBroker(
    os.environ.get("ROCKETPIPE_NAMESRV", "127.0.0.1:9876"),
    queues=[os.environ.get("TASK_QUEUE", "taskiq"), "second-tasks"],
    priorities=3,
    invisible_ms=int(os.environ.get("TASK_INVISIBLE_MS", "3000")),
).with_middlewares(SimpleRetryMiddleware(default_retry_count=3))


def _note(**facts: object) -> None:
    facts |= {"pid": os.getpid(), "at": time.time()}
    # One write each: what several processes append stays whole lines.
    with NOTES.open("ab", buffering=0) as notes:
        notes.write(json.dumps(facts).encode() + b"\n")


@broker.task(task_name="note")
async def note(what: str, number: int, due: float = 0) -> None:
    _note(what=what, number=number, due=due)


@broker.task(task_name="slow")
async def slow(what: str, seconds: float) -> None:
    _note(what=f"{what} begun", number=0)
    await asyncio.sleep(seconds)
    _note(what=what, number=0)


@broker.task(task_name="fails-twice", retry_on_error=True)
async def fails_twice(what: str) -> None:
    _note(what=what, number=0)
    if sum(line["what"] == what for line in read_notes(NOTES)) < 3:
        raise RuntimeError("not yet")


def read_notes(path: Path) -> list[dict[str, object]]:
    """What was noted so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
