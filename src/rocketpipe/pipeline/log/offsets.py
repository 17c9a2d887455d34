"""Where messages are, told from the directories of stores: what a planner asks when no broker is.

A path may hold the stores of several brokers: see `log.stores`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rocketpipe.client.name_servers import knows, users_topics
from rocketpipe.model.names import is_system_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.log.directory import LogDirectory, LogNotFound
from rocketpipe.pipeline.log.queue_view import QueueView
from rocketpipe.pipeline.log.stores import DEFAULT_BROKER, ends_when_left, stores_at
from rocketpipe.pipeline.planning.offset_reader import Ends, UnknownTopic
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.store.queues.entries import BLANK_SIZE

__all__ = ["DEFAULT_BROKER", "LogNotFound", "LogOffsets"]


class LogOffsets:
    """Topics, their queues and how far these reach, in the stores of one path."""

    def __init__(self, path: Path, broker_name: str | None = None) -> None:
        """Look at a store.

        Raises:
            LogNotFound: If there is none, or this machine cannot read it.
        """
        self._path = path
        self._broker = broker_name
        self._stores = self._opened()
        self._is_stale = False

    def topics(self) -> frozenset[str]:
        """Every topic that can be read and is not RocketMQ's own."""
        found = (topic for store in self._look().values() for topic in store.queue_ids)
        return frozenset(topic for topic in found if not is_system_topic(topic))

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic, in order.

        Raises:
            UnknownTopic: If no store has such a topic.
        """
        found = [
            MessageQueue(topic=topic, broker_name=name, queue_id=number)
            for name, store in self._look().items()
            for number in store.queue_ids.get(topic, ())
        ]
        if not any(topic in store.queue_ids for store in self._stores.values()):
            there = users_topics(self.topics(), ())
            raise UnknownTopic(topic, str(self._path), f"this store {knows(topic, there)}")
        return sorted(found)

    def ends(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, Ends]:
        """How far these queues reach now; those of a broker that has left are left out."""
        stores = self._look()
        found = {}
        for queue in queues:
            if queue.broker_name in stores:
                first, end = stores[queue.broker_name].ends(queue.topic, queue.queue_id)
                found[queue] = (QueueOffset(first), QueueOffset(end))
        # What is asked next is about these ends; whoever asks for ends again wants new ones.
        self._is_stale = True
        return found

    def oldest_ms(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, int]:
        """When the oldest message of each was stored; one of which that is unknown is left out."""
        found = {}
        for queue in queues:
            store = self._stores[queue.broker_name]
            first, end = store.ends(queue.topic, queue.queue_id)
            if first < end:
                entry = self._view(queue).entries(first, first + 1)[0]
                found[queue] = store.stored_ms(int(entry["at"]))
        return {queue: stored_ms for queue, stored_ms in found.items() if stored_ms >= 0}

    def deleted(self, queues: Sequence[MessageQueue]) -> frozenset[MessageQueue]:
        """Those that have no entry in any file: a queue that is read has had one."""
        return frozenset(queue for queue in queues if not self._view(queue).has_files)

    def drained(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, QueueOffset]:
        """Where those ended whose broker has left the directory."""
        stores = self._look()
        gone = {queue.broker_name for queue in queues} - stores.keys()
        left = {name: ends_when_left(self._path, name) for name in gone}
        return {
            queue: QueueOffset(ends.get(queue.topic, {}).get(queue.queue_id, 0))
            for queue in queues
            if (ends := left.get(queue.broker_name)) is not None
        }

    def at_time(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """The offset of the first message stored at that time or later; the end if none was."""
        store, view = self._stores[queue.broker_name], self._view(queue)
        low, high = store.ends(queue.topic, queue.queue_id)
        while low < high:
            middle = (low + high) // 2
            entry = view.entries(middle, middle + 1)[0]
            # One that is lost sorts before everything.
            is_there = int(entry["size"]) != BLANK_SIZE
            stored_ms = store.stored_ms(int(entry["at"])) if is_there else -1
            if stored_ms < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return QueueOffset(low)

    def sizes(self, ranges: Sequence[QueueRange]) -> Mapping[MessageQueue, int]:
        """How many bytes each range has, from the entries of its queue."""
        return {
            each.queue: self._view(each.queue).bytes_of(each.start, each.end) for each in ranges
        }

    def addresses(self) -> Mapping[str, str]:
        """None: nobody is asked."""
        return {}

    def close(self) -> None:
        """Close the files."""
        for store in self._stores.values():
            store.close()

    def _view(self, queue: MessageQueue) -> QueueView:
        return self._stores[queue.broker_name].queue(queue.topic, queue.queue_id)

    def _look(self) -> Mapping[str, LogDirectory]:
        if self._is_stale:
            self.close()
            self._stores = self._opened()
            self._is_stale = False
        return self._stores

    def _opened(self) -> dict[str, LogDirectory]:
        found: dict[str, LogDirectory] = {}
        try:
            for name, root in stores_at(self._path, self._broker).items():
                found[name] = LogDirectory(root)
        except LogNotFound:
            for store in found.values():
                store.close()
            raise
        return found
