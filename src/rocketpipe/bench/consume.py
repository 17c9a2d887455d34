"""How fast a cluster hands out what it has; nothing is consumed, for no offset is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from rocketpipe.bench.report import Errors, Report, Times
from rocketpipe.client.admin.offsets import Ends
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import MessageQueue

_POLL_MS: Final = 1000
#: After so many polls in a row that brought nothing, or an error, what is left will not come.
_HOPELESS: Final = 10


async def consume(
    consumer: PullConsumer,
    queues: Mapping[MessageQueue, Ends],
    *,
    messages: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
    timer_ns: Callable[[], int] = time.perf_counter_ns,
) -> Report:
    """Read queues from where they begin up to their ends, or until so many messages were read.

    The consumer is open, has no queues yet and commits nothing. ``advance`` is told how many more
    were read. The times are those that polls took which brought something.
    """
    times, errors = Times(), Errors()
    count = size = in_vain = 0
    wanted = {queue: ends for queue, ends in queues.items() if ends.least < ends.end}
    started_ns = timer_ns()
    await consumer.assign(list(wanted))
    for queue, ends in wanted.items():
        await consumer.seek(queue, ends.least)
    while in_vain < _HOPELESS and (messages is None or count < messages):
        if all(consumer.position(queue) >= ends.end for queue, ends in wanted.items()):
            break
        began_ns = timer_ns()
        most = {} if messages is None else {"most": min(32, messages - count)}
        try:
            some = await consumer.poll(timeout_ms=_POLL_MS, **most)
        except RocketPipeError as error:
            errors.add(error)
            in_vain += 1
            continue
        if not some:
            in_vain += 1
            continue
        in_vain = 0
        times.add(timer_ns() - began_ns)
        count += len(some)
        size += sum(len(message.body) for message in some)
        advance(len(some))
    return Report(
        messages=count, bytes=size, took_ns=timer_ns() - started_ns, times=times, errors=errors
    )
