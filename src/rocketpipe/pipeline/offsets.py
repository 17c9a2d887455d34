"""How far a stream has come, as Spark keeps it in the checkpoint.

    {"v": 1,
     "topics": {"orders": {"broker-a": {"0": 42}}},    the end of the batch, not included
     "from":   {"orders": {"broker-a": {"1": 7}}},     where it began, in queues that were new
     "bytes":  {"orders": {"broker-a": {"0": 9000}}}}  about how much it is, where that is known

``from`` also has queues whose messages had aged out, and were skipped. With it a batch follows from
the JSON before it and its own: planned again after a restart, it is planned the same, whatever the
brokers have by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.ranges import QueueRange

VERSION: Final = 1

_Nested = dict[str, dict[str, dict[str, int]]]


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
        return cls(_places(value, "topics"), _places(value, "from"), _flat(value, "bytes"))

    def to_json(self) -> dict[str, Any]:
        """As Spark writes it down."""
        value: dict[str, Any] = {"v": VERSION, "topics": _nested(self.ends)}
        if self.begins:
            value["from"] = _nested(self.begins)
        if self.sizes:
            value["bytes"] = _nested(self.sizes)
        return value

    def since(self, start: StreamOffset) -> list[QueueRange]:
        """What the batch holds that began at ``start`` and ends here; nothing but these decides."""
        ranges = []
        for queue, end in sorted(self.ends.items()):
            begin = self.begins.get(queue, start.ends.get(queue))
            if begin is not None and begin < end:
                ranges.append(QueueRange(queue, begin, end))
        return ranges


def _nested(numbers: Mapping[MessageQueue, int]) -> _Nested:
    nested: _Nested = {}
    for queue, number in sorted(numbers.items()):
        brokers = nested.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = number
    return nested


def _places(value: Mapping[str, Any], name: str) -> dict[MessageQueue, QueueOffset]:
    return {queue: QueueOffset(number) for queue, number in _flat(value, name).items()}


def _flat(value: Mapping[str, Any], name: str) -> dict[MessageQueue, int]:
    try:
        return {
            MessageQueue(topic=topic, broker_name=broker, queue_id=int(queue_id)): int(number)
            for topic, brokers in value.get(name, {}).items()
            for broker, queues in brokers.items()
            for queue_id, number in queues.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise UnreadableOffset(f"{name!r} is not as it should be ({error})") from error
