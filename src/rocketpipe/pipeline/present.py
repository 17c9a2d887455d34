"""What the topics hold now, as far as a read wants it: ranges of offsets, before rows are read."""

from __future__ import annotations

import logging

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.offset_limits import OffsetLimit
from rocketpipe.pipeline.options.read import ENDING_OFFSETS, STARTING_OFFSETS, ReadOptions
from rocketpipe.pipeline.options.text import EARLIEST, LATEST, OptionError
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import Gap, OnGap, missing
from rocketpipe.pipeline.planning.offset_reader import Ends, OffsetReader, QueuesUnreachable
from rocketpipe.pipeline.planning.ranges import QueueRange

log = logging.getLogger("rocketpipe.pipeline")


def present_ranges(
    places: OffsetReader, options: ReadOptions, wanted: RowFilter
) -> list[QueueRange]:
    """The offsets that can be needed, of the queues that have any.

    Raises:
        UnknownTopic: If there is no such topic.
        OptionError: If an option names a queue that is not there.
        MessagesGone: If messages were asked for that have aged out.
        QueuesUnreachable: If one of the brokers cannot be asked.
    """
    queues = options.selection.queues(places)
    if not queues:
        log.warning("no topic fits pattern=%s: there is nothing to read", options.selection.pattern)
    start, end = options.start or OffsetLimit(EARLIEST), options.end or OffsetLimit(LATEST)
    start.check_known(STARTING_OFFSETS, queues)
    end.check_known(ENDING_OFFSETS, queues)
    queues = [queue for queue in queues if wanted.wants_queue(queue.topic, queue.queue_id)]
    ends = places.ends(queues)
    if unasked := [queue for queue in queues if queue not in ends]:
        raise QueuesUnreachable(unasked)
    start = start.within(STARTING_OFFSETS, ends, options.on_gap)
    end = end.within(ENDING_OFFSETS, ends, options.on_gap)
    begins, finishes = start.resolve(places, queues, ends), end.resolve(places, queues, ends)
    for queue in sorted(start.offsets.keys() & end.offsets.keys() & ends.keys()):
        if finishes[queue] < begins[queue]:
            raise OptionError(
                ENDING_OFFSETS,
                f"has {finishes[queue]} for queue {queue.queue_id} of {queue.topic!r}, which "
                f"{STARTING_OFFSETS} begins at {begins[queue]}: give that or more",
            )
    ranges = (
        wanted.cut(_there(queue, begins[queue], finishes[queue], ends[queue], options.on_gap))
        for queue in queues
    )
    return [in_time for each in ranges if (in_time := _in_time(places, each, wanted)).count > 0]


def _there(
    queue: MessageQueue, begin: QueueOffset, finish: QueueOffset, ends: Ends, on_gap: OnGap
) -> QueueRange:
    """What of a range there is; ``onGap`` says what becomes of the rest."""
    least, greatest = ends
    if begin < min(least, finish):
        missing(Gap(queue, begin, min(least, finish)), on_gap)
    start = max(begin, least)
    return QueueRange(queue, start, max(start, min(finish, greatest)))


def _in_time(places: OffsetReader, whole: QueueRange, wanted: RowFilter) -> QueueRange:
    """What of a range was stored when the query wants it.

    Times of a queue only grow, unless its broker's clock was set back: then a search by time
    finds one of several places, here as everywhere in RocketMQ.
    """
    if wanted.stored_ms is None or whole.count <= 0:
        return whole
    first_ms, after_ms = wanted.stored_ms
    start, end = whole.start, whole.end
    if first_ms > 0:
        start = max(start, min(end, places.at_time(whole.queue, first_ms)))
    if after_ms < 1 << 62:
        end = min(end, max(start, places.at_time(whole.queue, after_ms)))
    return QueueRange(whole.queue, QueueOffset(start), QueueOffset(end))
