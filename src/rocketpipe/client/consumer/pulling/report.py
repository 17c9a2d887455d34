"""What a pull consumer says of itself when an operator asks: its queues, its stacks."""

from __future__ import annotations

from collections.abc import Iterable

from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer
from rocketpipe.client.session import Session
from rocketpipe.client.stacks import stack_text
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeType, Subscription
from rocketpipe.protocol.codes import OUR_VERSION
from rocketpipe.protocol.requests.running import (
    HeldQueueInfo,
    RunningInfo,
)


class PullReport:
    """Looks at what a pull consumer has in hand."""

    def __init__(self, session: Session, buffer: FetchBuffer) -> None:
        self._session = session
        self._buffer = buffer
        self._started_ms = session.clock.now_ms()

    def running_info(self, subscriptions: Iterable[Subscription], *, stacks: bool) -> RunningInfo:
        """How the consumer fares; with ``stacks`` where its threads and tasks are."""
        return RunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": str(self._session.name_servers),
                "PROP_CONSUME_TYPE": ConsumeType.CONSUME_ACTIVELY,
                "PROP_CLIENT_VERSION": OUR_VERSION.name,
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            },
            subscriptions=tuple(subscriptions),
            queues={
                place.queue: HeldQueueInfo(
                    commit_offset=place.done,
                    cached_msg_min_offset=place.position if len(place) else 0,
                    cached_msg_max_offset=place.next_offset - 1 if len(place) else 0,
                    cached_msg_count=len(place),
                )
                for place in self._buffer
            },
            stacks=stack_text() if stacks else None,
        )

    def places(self, topic: str) -> dict[MessageQueue, QueueOffset]:
        """Behind what was handed out and done with, in the queues of a topic."""
        return {place.queue: place.done for place in self._buffer if place.queue.topic == topic}
