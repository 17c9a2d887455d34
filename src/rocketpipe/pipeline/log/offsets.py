"""Where messages are, told from a store's directory: what a planner asks when no broker is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rocketpipe.client.name_servers import knows, users_topics
from rocketpipe.model.names import is_system_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.log.directory import LogDirectory, LogNotFound
from rocketpipe.pipeline.planning.offset_reader import Ends, UnknownTopic
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.store.queues.entries import BLANK_SIZE

__all__ = ["DEFAULT_BROKER", "LogNotFound", "LogOffsets"]

#: What a broker is called that was not named: no file in its directory says it.
DEFAULT_BROKER: Final = "broker-a"


class LogOffsets:
    """Topics, their queues and how far these reach, in one directory."""

    def __init__(self, path: Path, broker_name: str | None = None) -> None:
        """Look at a store.

        Raises:
            LogNotFound: If there is none, or this machine cannot read it.
        """
        self._path = path
        self._broker = broker_name or DEFAULT_BROKER
        self._directory = LogDirectory(path)
        self._is_stale = False

    def topics(self) -> frozenset[str]:
        """Every topic that can be read and is not RocketMQ's own."""
        found = self._look().queue_ids
        return frozenset(topic for topic in found if not is_system_topic(topic))

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic, in order.

        Raises:
            UnknownTopic: If the directory has no such topic.
        """
        numbers = self._look().queue_ids.get(topic)
        if numbers is None:
            there = users_topics(self.topics(), ())
            raise UnknownTopic(topic, str(self._path), f"this store {knows(topic, there)}")
        return [
            MessageQueue(topic=topic, broker_name=self._broker, queue_id=number)
            for number in sorted(numbers)
        ]

    def ends(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, Ends]:
        """How far these queues reach now."""
        directory = self._look()
        found = {}
        for queue in queues:
            first, end = directory.ends(queue.topic, queue.queue_id)
            found[queue] = (QueueOffset(first), QueueOffset(end))
        # What is asked next is about these ends; whoever asks for ends again wants new ones.
        self._is_stale = True
        return found

    def oldest_ms(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, int]:
        """When the oldest message of each was stored; one of which that is unknown is left out."""
        directory, found = self._directory, {}
        for queue in queues:
            first, end = directory.ends(queue.topic, queue.queue_id)
            if first < end:
                entry = directory.queue(queue.topic, queue.queue_id).entries(first, first + 1)[0]
                found[queue] = directory.stored_ms(int(entry["at"]))
        return {queue: stored_ms for queue, stored_ms in found.items() if stored_ms >= 0}

    def deleted(self, queues: Sequence[MessageQueue]) -> frozenset[MessageQueue]:
        """Those that have no entry in any file: a queue that is read has had one."""
        gone = [
            queue
            for queue in queues
            if not self._directory.queue(queue.topic, queue.queue_id).has_files
        ]
        return frozenset(gone)

    def at_time(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """The offset of the first message stored at that time or later; the end if none was."""
        directory = self._directory
        view = directory.queue(queue.topic, queue.queue_id)
        low, high = directory.ends(queue.topic, queue.queue_id)
        while low < high:
            middle = (low + high) // 2
            entry = view.entries(middle, middle + 1)[0]
            # One that is lost sorts before everything.
            is_there = int(entry["size"]) != BLANK_SIZE
            stored_ms = directory.stored_ms(int(entry["at"])) if is_there else -1
            if stored_ms < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return QueueOffset(low)

    def sizes(self, ranges: Sequence[QueueRange]) -> Mapping[MessageQueue, int]:
        """How many bytes each range has, from the entries of its queue."""
        view_of = self._directory.queue
        return {
            each.queue: view_of(each.queue.topic, each.queue.queue_id).bytes_of(
                each.start, each.end
            )
            for each in ranges
        }

    def addresses(self) -> Mapping[str, str]:
        """None: nobody is asked."""
        return {}

    def close(self) -> None:
        """Close the files."""
        self._directory.close()

    def _look(self) -> LogDirectory:
        if self._is_stale:
            self._directory.close()
            self._directory = LogDirectory(self._path)
            self._is_stale = False
        return self._directory
