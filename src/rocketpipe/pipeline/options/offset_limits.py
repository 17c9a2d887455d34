"""Where a read begins, and where it ends: a place in each queue, or how to find it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.text import (
    EARLIEST,
    LATEST,
    MAX_OFFSET,
    OptionError,
    json_object,
    queue_of,
)
from rocketpipe.pipeline.planning.gaps import OnGap
from rocketpipe.pipeline.planning.offset_reader import Ends, OffsetReader

log = logging.getLogger("rocketpipe.pipeline")

EXAMPLE: Final = '{"orders": {"broker-a": {"0": 42, "1": -2}}}'

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """One end of a read: of every queue, of some by offset, or by time."""

    #: EARLIEST or LATEST, for queues that ``offsets`` does not name.
    default: QueueOffset
    offsets: Mapping[MessageQueue, QueueOffset] = field(default_factory=dict)
    timestamp_ms: int | None = None

    @classmethod
    def parse(cls, option: str, text: str, *, default: QueueOffset) -> OffsetLimit:
        """Read ``earliest``, ``latest`` or a JSON of offsets by topic, broker and queue.

        What a query printed or kept as its offset is taken too.

        Raises:
            OptionError: If it is none of them.
        """
        if (word := _WORDS.get(text.lower())) is not None:
            return cls(word)
        if not text.startswith("{"):
            raise OptionError(option, f"is {text!r}: give earliest, latest or JSON like {EXAMPLE}")
        given = json_object(option, text, EXAMPLE)
        if given.get("v") == 1 and isinstance(given.get("topics"), dict):
            given = given["topics"]
        offsets = {}
        for topic, brokers in given.items():
            for broker, queues in _object(option, topic, brokers).items():
                for number, offset in _object(option, broker, queues).items():
                    queue = queue_of(option, topic, broker, number)
                    offsets[queue] = _offset(option, queue, offset)
        return cls(default, offsets)

    @property
    def is_latest(self) -> bool:
        """Whether nothing but the present end of every queue is meant."""
        return self.default == LATEST and not self.offsets and self.timestamp_ms is None

    def check_known(self, option: str, queues: Iterable[MessageQueue]) -> None:
        """Refuse offsets of queues that are not read: most likely a name is misspelt.

        Raises:
            OptionError: If there are such.
        """
        strange = sorted(self.offsets.keys() - set(queues))
        if strange:
            first = strange[0]
            raise OptionError(
                option,
                f"names queue {first.queue_id} of {first.topic!r} on broker "
                f"{first.broker_name!r}, which is not among those read: look at its topic, broker "
                "and number",
            )

    def within(self, option: str, ends: Mapping[MessageQueue, Ends], on_gap: OnGap) -> OffsetLimit:
        """The same edge, if no offset given is beyond what there is; one that is may be cut.

        Raises:
            OptionError: If one is, and ``onGap`` is fail.
        """
        beyond = {
            queue: ends[queue][1]
            for queue, offset in self.offsets.items()
            if queue in ends and offset > ends[queue][1]
        }
        for queue, end in sorted(beyond.items()):
            reason = (
                f"has {self.offsets[queue]} for queue {queue.queue_id} of {queue.topic!r} on "
                f"broker {queue.broker_name!r}, which ends at {end}"
            )
            if on_gap == "fail":
                raise OptionError(
                    option,
                    f"{reason}: give {end} or less, or -1 for the latest; was the topic made "
                    'anew? .option("onGap", "skip") takes the end instead',
                )
            log.warning("option %s %s: the end is taken", option, reason)
        if not beyond:
            return self
        return OffsetLimit(self.default, {**self.offsets, **beyond}, self.timestamp_ms)

    def resolve(
        self,
        places: OffsetReader,
        queues: Sequence[MessageQueue],
        ends: Mapping[MessageQueue, Ends],
    ) -> dict[MessageQueue, QueueOffset]:
        """The offset meant in each of these queues, whose ends are these now.

        An offset that was given is not fitted into what the queue has: that is for who reads.
        """
        found = {}
        for queue in queues:
            least, greatest = ends[queue]
            if self.timestamp_ms is not None:
                found[queue] = places.at_time(queue, self.timestamp_ms)
                continue
            offset = self.offsets.get(queue, self.default)
            found[queue] = {EARLIEST: least, LATEST: greatest}.get(offset, offset)
        return found


def _object(option: str, name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        shown = json.dumps(value)[:40]
        raise OptionError(option, f"has {shown} for {name!r}: write it like {EXAMPLE}")
    return value


def _offset(option: str, queue: MessageQueue, value: object) -> QueueOffset:
    if isinstance(value, bool) or not isinstance(value, int) or not -2 <= value <= MAX_OFFSET:
        raise OptionError(
            option,
            f"has {json.dumps(value)[:40]} for queue {queue.queue_id} of {queue.topic!r}: give "
            "an offset of 0 or more, -2 for the earliest or -1 for the latest",
        )
    return QueueOffset(value)
