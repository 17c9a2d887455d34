"""What of a stream cannot be read for now, though nothing has failed: whoever waits should know."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.planning.offset_reader import Ends, OffsetReader
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger("rocketpipe.pipeline")

_told: Final = LogBudget()


def held_up(
    places: OffsetReader,
    known: Mapping[MessageQueue, QueueOffset],
    queues: Sequence[MessageQueue],
    there: Mapping[MessageQueue, Ends],
) -> list[str]:
    """Brokers that do not answer, and queues that may not be read any more, in a sentence each.

    ``known`` is how far the queues were read, ``queues`` are those that can be read now, of which
    ``there`` has the ones whose broker answered.
    """
    away = sorted({queue.broker_name for queue in queues if queue not in there})
    said = [f"broker {name!r} does not answer: its queues wait for it" for name in away]
    brokers = {(queue.topic, queue.broker_name) for queue in queues}
    hidden = [
        queue
        for queue in sorted(known.keys() - set(queues))
        if (queue.topic, queue.broker_name) in brokers
    ]
    for queue, (_, end) in places.ends(hidden).items() if hidden else ():
        if end > known[queue]:
            said.append(
                f"topic {queue.topic!r}: queue {queue.queue_id} of broker {queue.broker_name!r} "
                f"cannot be read any more, and {end - known[queue]} of its messages were not yet: "
                "raise the topic's read queues again until they are"
            )
    for each in said:
        if _told.allows(each):
            log.warning("held up: %s%s", each, _told.suppressed())
    return said
