"""How far a stream has come, as Spark keeps it in the checkpoint.

    {"v": 1,
     "topics": {"orders": {"broker-a": {"0": 42}}},    the end of the batch, not included
     "from":   {"orders": {"broker-a": {"1": 7}}},     where it began, in queues that were new
     "bytes":  {"orders": {"broker-a": {"0": 9000}}},  about how much it is, where that is known
     "oldest": {"orders": {"broker-a": {"0": [7, 1700000000000]}}}}
                                                       the oldest message there was: offset, time

``from`` also has queues whose messages had aged out, and were skipped. With it a batch follows from
the JSON before it and its own: planned again after a restart, it is planned the same, whatever the
brokers have by then. By ``oldest`` a queue is known again: one that has another message there was
deleted and made anew meanwhile, whatever offsets it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.planning.ranges import QueueRange

VERSION: Final = 1

ValueT = TypeVar("ValueT")
_Nested = dict[str, dict[str, dict[str, ValueT]]]


class Oldest(NamedTuple):
    """The oldest message of a queue: its offset, and when it was stored; -1 if there was none."""

    offset: int
    stored_ms: int

    @classmethod
    def of(cls, value: Any) -> Oldest:
        """Raises ValueError, or TypeError, for what is not two numbers."""
        offset, stored_ms = value
        return cls(int(offset), int(stored_ms))

    def is_of_another_queue(self, seen: Oldest) -> bool:
        """Whether this cannot be the same queue, some time after ``seen``.

        Of the same one, the oldest message stays or a younger one takes its place. A follower may
        have older ones left than its leader.
        """
        if self.stored_ms < 0 or seen.stored_ms < 0:
            return self.offset < seen.offset
        if self.offset == seen.offset:
            return self.stored_ms != seen.stored_ms
        return self.offset < seen.offset and self.stored_ms > seen.stored_ms


class UnreadableOffset(RocketPipeError, ValueError):
    """A checkpoint holds an offset that is not of this source, or of a later version of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the checkpoint's offset cannot be read: {reason}; start with another "
            "checkpointLocation, or with the version of rocketpipe that wrote it"
        )
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnreadableOffset], tuple[str]]:
        return type(self), (self.reason,)


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A place in each queue, and what is needed to plan the batch that ends there."""

    ends: Mapping[MessageQueue, QueueOffset]
    begins: Mapping[MessageQueue, QueueOffset] = field(default_factory=dict)
    sizes: Mapping[MessageQueue, int] = field(default_factory=dict)
    oldest: Mapping[MessageQueue, Oldest] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object) -> StreamOffset:
        """Read what ``to_json`` gave.

        Raises:
            UnreadableOffset: If it is something else.
        """
        if not isinstance(value, dict):
            raise UnreadableOffset("it is no JSON object")
        if value.get("v") != VERSION:
            raise UnreadableOffset(f"it has version {value.get('v')!r}, this reads {VERSION}")
        return cls(
            _places(value, "topics"),
            _places(value, "from"),
            _flat(value, "bytes", int),
            _flat(value, "oldest", Oldest.of),
        )

    def to_json(self) -> dict[str, Any]:
        """As Spark writes it down."""
        value: dict[str, Any] = {"v": VERSION, "topics": _nested(self.ends)}
        if self.begins:
            value["from"] = _nested(self.begins)
        if self.sizes:
            value["bytes"] = _nested(self.sizes)
        if self.oldest:
            value["oldest"] = _nested({queue: list(each) for queue, each in self.oldest.items()})
        return value

    def since(self, start: StreamOffset) -> list[QueueRange]:
        """What the batch holds that began at ``start`` and ends here; nothing but these decides."""
        ranges = []
        for queue, end in sorted(self.ends.items()):
            begin = self.begins.get(queue, start.ends.get(queue))
            if begin is not None and begin < end:
                ranges.append(QueueRange(queue, begin, end))
        return ranges


def _nested(numbers: Mapping[MessageQueue, ValueT]) -> _Nested[ValueT]:
    nested: _Nested[ValueT] = {}
    for queue, number in sorted(numbers.items()):
        brokers = nested.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = number
    return nested


def _places(value: Mapping[str, Any], name: str) -> dict[MessageQueue, QueueOffset]:
    return {queue: QueueOffset(number) for queue, number in _flat(value, name, int).items()}


def _flat(
    value: Mapping[str, Any], name: str, of: Callable[[Any], ValueT]
) -> dict[MessageQueue, ValueT]:
    try:
        return {
            MessageQueue(topic=topic, broker_name=broker, queue_id=int(queue_id)): of(each)
            for topic, brokers in value.get(name, {}).items()
            for broker, queues in brokers.items()
            for queue_id, each in queues.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise UnreadableOffset(f"{name!r} is not as it should be ({error})") from error
