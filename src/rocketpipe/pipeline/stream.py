"""Follows the topics: Spark asks how far they reach, and has the parts between two places read.

Planning runs in one Python process beside the driver, for as long as the query does; reading in
tasks, which know nothing but their part. Spark's checkpoint is the truth about how far the query
has come. The consumer group, if one is named, is told of it so that its lag shows in every tool.

    queue or topic added      read from its first message, from the next batch on; if a queue's
                              first ones aged out meanwhile, that is a gap
    broker out of reach       its queues stay where they are; a warning, also in the progress
    fewer queues to read      the same, if they had messages that were not read
    broker drained            all of it had been read: a line, and on; else a gap
    topic deleted             the same
    messages aged out         a gap: an error, or a warning and on from what is left
    end of a queue lost       a gap as well: as a crash may take what was not synced
    topic deleted and made    an error, or a warning and on from its start; known by the queue's
    anew                      oldest message, which is another one
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rocketpipe.errors import CallTimeout, ConnectionLost
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.broker.progress import GroupProgress
from rocketpipe.pipeline.columns.rows import check_columns
from rocketpipe.pipeline.open_offsets import open_offsets
from rocketpipe.pipeline.options.offset_limits import OffsetLimit
from rocketpipe.pipeline.options.read import STARTING_OFFSETS, ReadOptions
from rocketpipe.pipeline.options.text import LATEST
from rocketpipe.pipeline.partition import SparkPartition
from rocketpipe.pipeline.planning.admission import share_out, share_out_bytes
from rocketpipe.pipeline.planning.drained import DrainedBrokers
from rocketpipe.pipeline.planning.gaps import Gap, missing
from rocketpipe.pipeline.planning.held_up import held_up
from rocketpipe.pipeline.planning.offset_reader import (
    Ends,
    OffsetReader,
    QueuesUnreachable,
    UnknownTopic,
)
from rocketpipe.pipeline.planning.offsets import Oldest, StreamOffset
from rocketpipe.pipeline.planning.ranges import MESSAGE_BYTES, QueueRange, plan, to_measure
from rocketpipe.pipeline.telling import plainly
from rocketpipe.record.layout import MIN_RECORD_BYTES
from rocketpipe.remoting.log_budget import LogBudget

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.0 and 4.1 have no limits, and tell no start
    STREAM_READER_BASES: tuple[type, ...] = (DataSourceStreamReader,)
    _ALL: tuple[type, ...] = ()
else:
    STREAM_READER_BASES = (DataSourceStreamReader, SupportsTriggerAvailableNow)
    _ALL = (ReadAllAvailable,)

log = logging.getLogger("rocketpipe.pipeline")

_lost: Final = LogBudget()


class StreamReader(*STREAM_READER_BASES):  # type: ignore[misc]
    """One query's reader."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Prepare; nothing is asked yet.

        Raises:
            ColumnError: If the schema asks for what messages do not have.
            OptionError: If the options are those of a batch.
        """
        check_columns(schema, options)
        options.check_stream()
        self._options = options
        self._schema = schema
        self._places: OffsetReader | None = None
        self._progress: GroupProgress | None = None
        self._seen: StreamOffset | None = None
        """Where the last batch ended, for a Spark that does not tell."""
        self._until: Mapping[MessageQueue, QueueOffset] | None = None
        """Where all ends, if only what is available now is read."""
        self._latest: StreamOffset | None = None
        self._held_up: list[str] = []
        self._drained = DrainedBrokers(options.on_gap)

    # On the driver

    @plainly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins.

        Raises:
            UnknownTopic: If there is no such topic.
            OptionError: If an option names a queue that is not there.
            QueuesUnreachable: If one of the brokers cannot be asked.
            ConnectionLost: If no NameServer can be reached.
        """
        places = self._open()
        queues = self._options.selection.queues(places)
        start = self._options.start or OffsetLimit(LATEST)
        start.check_known(STARTING_OFFSETS, queues)
        if not queues:
            log.warning(
                "no topic fits yet pattern=%s: the query waits for one",
                self._options.selection.pattern,
            )
        ends = self._all_ends(places, queues)
        start = start.within(STARTING_OFFSETS, ends, self._options.on_gap)
        begins = start.resolve(places, queues, ends)
        # Named as where it begins, too, and so by the first batch: Spark does not keep this place,
        # and "latest" is another one after a restart.
        self._seen = StreamOffset(begins, begins, oldest=self._oldest(places, ends))
        return self._seen.to_json()

    @plainly()
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Where the next batch ends; ``start`` itself if there is nothing new.

        Spark 4.0 and 4.1 give no arguments.

        Raises:
            MessagesGone: If messages have aged out since ``start`` and may not be skipped.
            QueuesUnreachable: If a query is to end with what was available when it began, and that
                cannot be read now.
        """
        began = StreamOffset.from_json(start) if start is not None else self._seen
        if began is None:
            began = StreamOffset.from_json(self.initialOffset())
        if start is not None:
            self._tell(began.ends)  # all before it is done: Spark runs one batch at a time
        end = self._next(began, is_limited=not isinstance(limit, _ALL))
        self._seen = end
        return end.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How much a batch takes, as far as Spark wants to know; all limits are kept anyway."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Have this query end where the queues end now.

        Raises:
            UnknownTopic: If there is no such topic.
            QueuesUnreachable: If one of the brokers cannot be asked.
            ConnectionLost: If no NameServer can be reached.
        """
        places = self._open()
        ends = self._all_ends(places, self._options.selection.queues(places))
        self._until = {queue: greatest for queue, (_, greatest) in ends.items()}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Where the queues ended when the last batch was planned, for the query's progress.

        ``lag`` is how many messages lie between the end of that batch and there; ``held_up`` says
        what cannot be read for now, if anything.
        """
        if self._latest is None:
            return None
        read = self._seen.ends if self._seen is not None else {}
        lag = sum(max(0, end - read.get(queue, end)) for queue, end in self._latest.ends.items())
        told = {**self._latest.to_json(), "lag": lag}
        return {**told, "held_up": self._held_up} if self._held_up else told

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[SparkPartition]:
        """What each task reads of a batch; the same for the same places, whenever it is asked.

        Raises:
            UnreadableOffset: If the checkpoint is another source's.
        """
        began, ended = StreamOffset.from_json(start), StreamOffset.from_json(end)
        self._seen = ended  # Spark 4.0 and 4.1 tell where a restarted query is with an empty batch
        ranges = ended.since(began) if start != end else []
        if not ranges:
            return []
        planned = plan(
            ranges,
            ended.sizes,
            max_bytes=self._options.max_bytes_per_partition,
            min_partitions=self._options.min_partitions,
        )
        addresses = self._addresses(sorted({each.queue.topic for each in ranges}))
        return [SparkPartition(each, addresses) for each in planned]

    def commit(self, end: dict[str, Any]) -> None:
        """Tell the group's brokers how far the query has come."""
        self._tell(StreamOffset.from_json(end).ends)

    def stop(self) -> None:
        """Let go of connections and files."""
        places, self._places = self._places, None
        progress, self._progress = self._progress, None
        for held in (places, progress):
            if held is not None:
                held.close()

    # In a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part.

        Raises:
            MessagesGone: If the queue lost messages since the plan, and they may not be skipped.
            UnreadableMessage: If a record is damaged, or its body does not inflate.
            ConnectionLost: If the broker is out of reach.
        """
        from rocketpipe.pipeline.reading import read_part

        if isinstance(partition, SparkPartition):
            with plainly():
                yield from read_part(partition, self._options, self._schema, self._options.wanted)

    def _next(self, start: StreamOffset, *, is_limited: bool) -> StreamOffset:
        places = self._open()
        queues = self._queues(places, start)
        there = dict(places.ends(queues))
        self._held_up = held_up(places, start.ends, queues, there)
        grown = {queue: ends for queue, ends in there.items() if ends[1] != start.ends.get(queue)}
        oldest = self._oldest(places, grown)
        for queue in self._deleted(places, start, grown):
            del there[queue]
        if self._until is not None:
            there = dict(self._available(there, start))
        begins = {
            queue: self._begin(places, queue, start, ends, oldest) for queue, ends in there.items()
        }
        begins |= self._drained.skipped(places, start.ends, queues)
        self._latest = StreamOffset(
            {**start.ends, **{queue: greatest for queue, (_, greatest) in there.items()}}
        )
        until = self._until or {}
        pending = {
            queue: count
            for queue, (_, greatest) in there.items()
            if (count := min(greatest, until.get(queue, greatest)) - begins[queue]) > 0
        }
        granted, sizes = self._granted(places, begins, pending, is_limited=is_limited)
        ends = dict(start.ends)
        moved = {}
        for queue, begin in begins.items():
            count = granted.get(queue, 0)
            ends[queue] = QueueOffset(begin + count)
            if begin != start.ends.get(queue) or begin == start.begins.get(queue):
                moved[queue] = begin
        if ends == start.ends:
            return start
        return StreamOffset(ends, moved, sizes, {**start.oldest, **oldest})

    def _oldest(
        self, places: OffsetReader, ends: Mapping[MessageQueue, Ends]
    ) -> dict[MessageQueue, Oldest]:
        """By what these queues are known again."""
        stored = places.oldest_ms(list(ends)) if ends else {}
        return {
            queue: Oldest(least, stored.get(queue, -1))
            for queue, (least, greatest) in ends.items()
            if queue in stored or least == greatest
        }

    def _deleted(
        self, places: OffsetReader, start: StreamOffset, there: Mapping[MessageQueue, Ends]
    ) -> frozenset[MessageQueue]:
        """The queues that end before what was read of them, since their topic is no more."""
        shorter = [
            queue for queue, (_, greatest) in there.items() if greatest < start.ends.get(queue, 0)
        ]
        gone = places.deleted(shorter) if shorter else frozenset()
        for topic in sorted({queue.topic for queue in gone}):
            if _lost.allows(f"deleted: {topic}"):
                log.warning("topic is deleted topic=%s%s", topic, _lost.suppressed())
        return gone

    def _all_ends(
        self, places: OffsetReader, queues: Sequence[MessageQueue]
    ) -> Mapping[MessageQueue, Ends]:
        ends = places.ends(queues)
        if unasked := [queue for queue in queues if queue not in ends]:
            raise QueuesUnreachable(unasked)
        return ends

    def _available(
        self, there: Mapping[MessageQueue, Ends], start: StreamOffset
    ) -> Mapping[MessageQueue, Ends]:
        """The queues that were there when a query of what is available began."""
        assert self._until is not None
        unread = [
            queue
            for queue, end in self._until.items()
            if queue not in there and start.ends.get(queue, -1) < end
        ]
        if unread:
            raise QueuesUnreachable(unread)  # it would end, as if all had been read
        return {queue: ends for queue, ends in there.items() if queue in self._until}

    def _queues(self, places: OffsetReader, start: StreamOffset) -> list[MessageQueue]:
        try:
            return self._options.selection.queues(places)
        except (ConnectionLost, CallTimeout) as error:
            # Without a NameServer nothing new is found; brokers that are known can be asked.
            if _lost.allows(error):
                log.warning("topics not looked up reason=%s%s", error, _lost.suppressed())
            return sorted(start.ends)
        except UnknownTopic as error:
            # It was there when the query began. What is left of the others is still read.
            if _lost.allows(error):
                log.warning("topic not found reason=%s%s", error, _lost.suppressed())
            found: list[MessageQueue] = []
            for topic in self._options.selection.topics:
                try:
                    found.extend(places.queues(topic))
                except UnknownTopic:
                    continue
            return sorted(found)

    def _begin(
        self,
        places: OffsetReader,
        queue: MessageQueue,
        start: StreamOffset,
        ends: Ends,
        oldest: Mapping[MessageQueue, Oldest],
    ) -> QueueOffset:
        """Where the next batch begins in a queue; ``onGap`` says whether it may skip."""
        least, greatest = ends
        known = start.ends.get(queue)
        if known is None:
            if least > 0 and any(each.topic == queue.topic for each in start.ends):
                # It came to a topic that was being followed, and so all of it was to be read.
                missing(Gap(queue, QueueOffset(0), least), self._options.on_gap)
            return least
        seen = start.oldest.get(queue)
        now = oldest.get(queue)
        if known > greatest and seen is not None and now is None:
            return known  # whether it is the same queue cannot be told at present
        is_anew = known > greatest and (seen is None or least == greatest)
        if is_anew or self._is_anew(places, queue, seen, now):
            missing(Gap(queue, known, least, is_anew=True), self._options.on_gap)
            return least
        if least <= known <= greatest:
            return known
        if known < least:
            missing(Gap(queue, known, least), self._options.on_gap)
            return least
        # The same queue, and what was read last is no more: what comes now takes its offsets.
        missing(Gap(queue, greatest, known), self._options.on_gap)
        return greatest

    def _is_anew(
        self, places: OffsetReader, queue: MessageQueue, seen: Oldest | None, now: Oldest | None
    ) -> bool:
        if seen is None or now is None or not now.is_of_another_queue(seen):
            return False
        # Offset and time were asked for one after the other, and old messages may have gone in
        # between: the other way round they cannot be mistaken.
        stored_ms = places.oldest_ms([queue]).get(queue, -1)
        least, greatest = places.ends([queue]).get(queue, (now.offset, now.offset))
        if stored_ms < 0 and least != greatest:
            return False
        return Oldest(least, stored_ms).is_of_another_queue(seen)

    def _granted(
        self,
        places: OffsetReader,
        begins: Mapping[MessageQueue, QueueOffset],
        pending: Mapping[MessageQueue, int],
        *,
        is_limited: bool,
    ) -> tuple[Mapping[MessageQueue, int], Mapping[MessageQueue, int]]:
        """How many messages of each queue the next batch takes, and about how many bytes.

        What waits may be a hundred times what is taken: only that is measured.
        """
        most = self._options.max_offsets_per_trigger
        most_bytes = self._options.max_bytes_per_trigger
        asked = share_out(pending, most) if is_limited and most is not None else pending
        if not is_limited or most_bytes is None:
            return asked, self._sizes(places, begins, asked)
        # No more fits than if all were as short as can be.
        fitting = most_bytes // MIN_RECORD_BYTES + 1
        asked = {queue: min(count, fitting) for queue, count in asked.items()}
        sizes = self._sizes(places, begins, asked)
        known = {queue: sizes.get(queue, n * MESSAGE_BYTES) for queue, n in asked.items()}
        granted = share_out_bytes(asked, known, most_bytes)
        taken = {
            queue: size * granted[queue] // asked[queue]
            for queue, size in sizes.items()
            if granted.get(queue)
        }
        return granted, taken

    def _sizes(
        self,
        places: OffsetReader,
        begins: Mapping[MessageQueue, QueueOffset],
        counts: Mapping[MessageQueue, int],
    ) -> Mapping[MessageQueue, int]:
        pending = [
            QueueRange(queue, begins[queue], QueueOffset(begins[queue] + count))
            for queue, count in counts.items()
            if count
        ]
        return places.sizes(
            to_measure(pending) if self._options.max_bytes_per_trigger is None else pending
        )

    def _addresses(self, topics: Sequence[str]) -> Mapping[str, str]:
        if self._options.path is not None:
            return {}  # the log is read, and nobody asked
        places = self._open()
        for topic in topics:
            try:
                places.queues(topic)  # a restarted query asks for nothing else before it plans
            except UnknownTopic:
                continue  # whoever reads it will say so
        return places.addresses()

    def _tell(self, ends: Mapping[MessageQueue, QueueOffset]) -> None:
        if not self._options.commits or self._options.name_servers is None:
            return
        if self._progress is None:
            self._progress = GroupProgress(
                self._options.name_servers, self._options.group, self._options.access
            )
        self._progress.tell(ends)

    def _open(self) -> OffsetReader:
        if self._places is None:
            self._places = open_offsets(self._options)
        return self._places
