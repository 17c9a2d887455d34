"""How fast a cluster takes messages: so many, of one size, so many under way at a time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketpipe.bench.report import Errors, Report, Times
from rocketpipe.client.producer.producer import Producer
from rocketpipe.errors import RocketPipeError
from rocketpipe.record.layout import MAX_BODY_BYTES

MAX_WINDOW: Final = 10_000
#: After so many errors in a row nothing is gained by going on.
HOPELESS: Final = 100
_BODIES: Final = 16


@dataclass(frozen=True, slots=True)
class ProduceLoad:
    """What is sent.

    Raises:
        ValueError: If a number is outside its limits.
    """

    topic: str
    messages: int
    #: How long each body is.
    size: int
    #: How many sends wait for an answer at a time.
    window: int

    def __post_init__(self) -> None:
        for name, least, most in (
            ("messages", 1, None),
            ("size", 1, MAX_BODY_BYTES),
            ("window", 1, MAX_WINDOW),
        ):
            value = getattr(self, name)
            if value < least or (most is not None and value > most):
                limits = f"from {least} to {most}" if most else f"{least} or more"
                raise ValueError(f"{name} {value}: {limits}")


async def produce(
    producer: Producer,
    load: ProduceLoad,
    *,
    chance: random.Random,
    advance: Callable[[], None] = lambda: None,
    timer_ns: Callable[[], int] = time.perf_counter_ns,
) -> Report:
    """Send the load with an open producer, and tell how it went; errors are counted, not raised.

    ``advance`` is called after every send. The run ends early when nothing succeeds any more.
    """
    # Of chance, so that compression cannot shorten them; a few, so that making them costs nothing.
    bodies = [chance.randbytes(load.size) for _ in range(_BODIES)]
    times, errors = Times(), Errors()
    left, failed_in_a_row = load.messages, 0

    async def send_on() -> None:
        nonlocal left, failed_in_a_row
        while left and failed_in_a_row < HOPELESS:
            left -= 1
            began_ns = timer_ns()
            try:
                await producer.send(load.topic, bodies[left % _BODIES])
            except RocketPipeError as error:
                errors.add(error)
                failed_in_a_row += 1
            else:
                times.add(timer_ns() - began_ns)
                failed_in_a_row = 0
            advance()

    started_ns = timer_ns()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(load.window, load.messages)):
            tasks.create_task(send_on())
    return Report(
        messages=times.count,
        bytes=times.count * load.size,
        took_ns=timer_ns() - started_ns,
        times=times,
        errors=errors,
    )
