"""Reads topics at the application's own pace.

Provisional: every queue of a topic goes to this one consumer; groups are not shared out yet.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.filter.tags import parse_tags
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.names import check_consumer_group, check_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import EVERYTHING, TAG
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.record.codec import RecordView, view_records

SUSPEND_MS: Final = 15_000
PULL_TIMEOUT_MS: Final = 30_000
PULL_COUNT: Final = 32


@dataclass(slots=True)
class _Place:
    """How far one queue has been read, and the pull that reads on."""

    address: str
    expression: str
    next_offset: QueueOffset
    pull: asyncio.Task[PullMessageReply] | None = None


class PullConsumer:
    """Reads all queues of the topics it subscribes, from where its group stopped."""

    def __init__(self, name_servers: str, *, group: str) -> None:
        check_consumer_group(group)
        self._group = group
        self._session = Session(name_servers)
        self._places: dict[MessageQueue, _Place] = {}

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pulls = [place.pull for place in self._places.values() if place.pull is not None]
        for pull in pulls:
            pull.cancel()
        await asyncio.gather(*pulls, return_exceptions=True)
        await self._session.__aexit__(kind, error, trace)

    async def subscribe(self, topic: str, *, tags: str = EVERYTHING) -> None:
        """Read a topic from now on: from the group's offsets, or else from the oldest message.

        Raises:
            InvalidName: If no topic may have this name.
            FilterError: If ``tags`` is not an expression like ``A || B``.
            NoRoute: If no NameServer knows the topic.
        """
        check_topic(topic)
        parse_tags(tags)
        route = await self._session.routes.get(topic)
        for queue in route.readable_queues(topic):
            address = self._session.leader_of(queue, route)
            start = await self._start_of(queue, address)
            self._places[queue] = _Place(address, tags, start)

    async def poll(self, timeout_ms: int = SUSPEND_MS) -> list[RecordView]:
        """The next messages of whichever queue has some; empty when the time is up first.

        Raises:
            RequestRejected: If a broker refuses the pull.
            ConnectionLost: If a broker is out of reach.
        """
        assert self._places, "subscribe first"
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            pulls = {self._pulling(queue, place): queue for queue, place in self._places.items()}
            done, _ = await asyncio.wait(pulls, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for pull in done:
                place = self._places[pulls[pull]]
                place.pull = None
                reply = pull.result()
                place.next_offset = reply.next_begin_offset
                if reply.messages:
                    return list(view_records(reply.messages))
        return []

    async def commit(self) -> None:
        """Record how far the group has come: everything that ``poll`` returned is done with.

        Raises:
            ConnectionLost: If a broker is out of reach.
        """
        await asyncio.gather(
            *(
                self._session.caller.call(
                    place.address,
                    UpdateConsumerOffset(
                        consumer_group=self._group,
                        topic=queue.topic,
                        queue_id=queue.queue_id,
                        commit_offset=place.next_offset,
                        broker_name=queue.broker_name,
                    ),
                )
                for queue, place in self._places.items()
            )
        )

    async def _start_of(self, queue: MessageQueue, address: str) -> QueueOffset:
        try:
            reply = await self._session.caller.call(
                address,
                QueryConsumerOffset(
                    consumer_group=self._group,
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    broker_name=queue.broker_name,
                ),
            )
        except RequestRejected as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            start, _ = await self._session.ends_of(queue, address)
            return start
        return reply.offset

    def _pulling(self, queue: MessageQueue, place: _Place) -> asyncio.Task[PullMessageReply]:
        if place.pull is None:
            request = pull_request(self._group, queue, place.next_offset, place.expression)
            place.pull = asyncio.ensure_future(
                self._session.caller.call(place.address, request, PULL_TIMEOUT_MS)
            )
        return place.pull


def pull_request(
    group: str,
    queue: MessageQueue,
    offset: QueueOffset,
    expression: str,
    suspend_ms: int = SUSPEND_MS,
) -> PullMessage:
    """The pull of a consumer that names its subscription; it waits unless ``suspend_ms`` is 0."""
    suspend = PullFlag.SUSPEND if suspend_ms else 0
    return PullMessage(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=PULL_COUNT,
        sys_flag=int(PullFlag.SUBSCRIPTION | suspend),
        commit_offset=QueueOffset(0),
        suspend_timeout_millis=suspend_ms,
        subscription=expression,
        sub_version=0,
        expression_type=TAG,
        broker_name=queue.broker_name,
    )
