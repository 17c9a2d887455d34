"""Answers to pulls: what the queue has, or a wait until it has something."""

from __future__ import annotations

from collections.abc import Callable

from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import FilterError, RequestRejected, StoreError
from rocketpipe.filter.tags import parse_tags
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.subscription import EVERYTHING, TAG
from rocketpipe.model.topic import Perm
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import (
    MAX_READ_COUNT,
    MessageStore,
    ReadResult,
    ReadStatus,
)
from rocketpipe.store.reader import everything


class PullHandlers:
    """Reads queues to consumers."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        offsets: OffsetTable,
        waiting: WaitingPulls,
        clock: Clock,
        max_suspend_ms: int,
    ) -> None:
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._waiting = waiting
        self._clock = clock
        self._max_suspend_ms = max_suspend_ms

    @handles(PullMessage)
    async def pull(self, request: PullMessage, call: Call) -> PullMessageReply:
        self._check(request)
        matches = _tag_filter(request)
        if request.sys_flag & PullFlag.COMMIT_OFFSET:
            self._offsets.commit(
                request.consumer_group, request.topic, request.queue_id, request.commit_offset
            )
        result = self._read(request, matches)
        if request.sys_flag & PullFlag.SUSPEND:
            result = await self._wait(request, matches, result)
        return PullMessageReply(
            code=_code(result.status, request.queue_offset),
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            messages=result.records,
        )

    def _check(self, request: PullMessage) -> None:
        settings = self._topics.get(request.topic)
        if settings is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist on this broker"
            )
        if not settings.perm & Perm.READ:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, f"topic[{request.topic}] may not be read"
            )
        if not 0 <= request.queue_id < settings.read_queues:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{request.queue_id}] is illegal, "
                f"topic:[{request.topic}] has {settings.read_queues} queues to read",
            )

    async def _wait(
        self, request: PullMessage, matches: Callable[[int], bool], result: ReadResult
    ) -> ReadResult:
        """Read again each time the queue grows, until something matches or the time is up."""
        deadline = self._clock.monotonic_ms() + min(
            request.suspend_timeout_millis, self._max_suspend_ms
        )
        while _code(result.status, request.queue_offset) == ResponseCode.PULL_NOT_FOUND:
            left = deadline - self._clock.monotonic_ms()
            if left <= 0 or not await self._waiting.grown(request.topic, request.queue_id, left):
                break
            result = self._read(request, matches)
        return result

    def _read(self, request: PullMessage, matches: Callable[[int], bool]) -> ReadResult:
        try:
            return self._store.read(
                request.topic,
                request.queue_id,
                request.queue_offset,
                max_count=min(request.max_msg_nums, MAX_READ_COUNT),
                matches=matches,
            )
        except StoreError as error:
            # Nothing wrong is ever given out. Whoever asks for the next offset can read on.
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error


def _tag_filter(request: PullMessage) -> Callable[[int], bool]:
    """The predicate of the subscription that came with the pull."""
    if (request.expression_type or TAG) != TAG:
        raise RequestRejected(
            ResponseCode.SYSTEM_ERROR, "this broker does not filter by SQL92 yet: use tags"
        )
    if not request.sys_flag & PullFlag.SUBSCRIPTION:
        return everything
    try:
        return parse_tags(request.subscription or EVERYTHING).matches_code
    except FilterError as error:
        raise RequestRejected(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"parse the consumer's subscription failed: {error}",
        ) from error


def _code(status: ReadStatus, asked: int) -> ResponseCode:
    match status:
        case ReadStatus.FOUND:
            return ResponseCode.SUCCESS
        case ReadStatus.NO_MATCHED_MESSAGE | ReadStatus.MESSAGE_WAS_REMOVING:
            return ResponseCode.PULL_RETRY_IMMEDIATELY
        case ReadStatus.NO_MATCHED_LOGIC_QUEUE | ReadStatus.NO_MESSAGE_IN_QUEUE:
            return ResponseCode.PULL_OFFSET_MOVED if asked else ResponseCode.PULL_NOT_FOUND
        case ReadStatus.OFFSET_OVERFLOW_ONE | ReadStatus.OFFSET_FOUND_NULL:
            return ResponseCode.PULL_NOT_FOUND
        case (
            ReadStatus.OFFSET_OVERFLOW_BADLY | ReadStatus.OFFSET_TOO_SMALL | ReadStatus.OFFSET_RESET
        ):
            return ResponseCode.PULL_OFFSET_MOVED
