"""Answers to pulls: what the queue has, or a wait until it has something.

A pull has two halves. Its plan depends on topics, groups and subscriptions, and can be kept; its
answer depends on the queue. One that waited is planned and read anew, and waits no second time.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from rocketpipe.broker.delivery.cold_reads import WINDOW_MS, ColdReads
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.delivery.pull_plan import PullForbidden, PullPlan, PullPlanner, read_limits
from rocketpipe.broker.delivery.slave_reads import SlaveReads
from rocketpipe.broker.intake.intake import unreadable
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RecordError, RequestRejected, StoreError
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import PullForbiddenReply, PullMessage, PullMessageReply
from rocketpipe.record.hot import split
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.reader import MAX_READ_BYTES, MAX_SCAN_ENTRIES, ReadResult, ReadStatus

#: Records are read and looked into so many at a time, and then others have their turn.
_FILTERED_AT_ONCE: Final = 32
#: And so much of the log for one pull: an expression that matches nothing moves on by 20.
_MAX_FILTERED_BYTES: Final = 8 << 20

#: Where the head of a record has its place in its queue.
_QUEUE_OFFSET: Final = 5
#: And behind it, its place in the log.
_LOG_OFFSET: Final = 6
_COMMIT_OFFSET: Final = int(PullFlag.COMMIT_OFFSET)

_CODES: Final = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


def pull_code(status: ReadStatus, asked: int) -> ResponseCode:
    """The code under which a pull is answered that asked for this offset."""
    code = _CODES.get(status)
    if code is not None:
        return code
    # A queue without messages: its end is 0.
    return ResponseCode.PULL_OFFSET_MOVED if asked else ResponseCode.PULL_NOT_FOUND


class PullHandlers:
    """Reads queues to consumers."""

    def __init__(
        self,
        store: MessageStore,
        planner: PullPlanner,
        offsets: OffsetTable,
        waiting: WaitingPulls,
        clock: Clock,
        cold: ColdReads,
        stats: Stats | None = None,
        slaves: SlaveReads | None = None,
    ) -> None:
        """``slaves`` says whom consumers are to ask next; without it they stay here."""
        self._slaves = slaves
        self._cold = cold
        self._stats = stats
        self._store = store
        self._planner = planner
        self._offsets = offsets
        self._waiting = waiting
        self._clock = clock

    @handles(PullMessage)
    async def pull(self, request: PullMessage, call: Call) -> PullMessageReply | PullForbiddenReply:
        code = call.command.code
        await self._planner.filters.turn(request.expression_type, request.subscription)
        try:
            plan = self.plan(request, code)
            reply = await self.answer(plan, request)
            if reply.code == ResponseCode.PULL_NOT_FOUND:
                wait_ms = self._planner.wait_ms(request)
                if wait_ms > 0:
                    call.waited = True
                    await self._wait(plan, request, wait_ms)
                    await call.peer.drained()  # others of its waits were answered meanwhile
                    call.check_again(request)
                    plan = self.plan(request, code)
                    reply = await self.answer(plan, request, again=True)
        except PullForbidden as error:
            return PullForbiddenReply(forbidden_type=int(error.forbidden_type), remark=error.remark)
        return reply

    def plan(self, request: PullMessage, code: int | None = None) -> PullPlan:
        """Check everything about a pull but its offsets; see `PullPlan` for how long it holds.

        Raises:
            PullForbidden: If broker, group or topic do not allow it.
            RequestRejected: If it is wrong in another way.
        """
        return self._planner.plan(
            request, request.code if code is None else code, self._clock.now_ms()
        )

    def lane_plan(self, request: PullMessage, code: int) -> PullPlan:
        """The same for the fast path, which answers without counting what is cold.

        Raises:
            PullForbidden, RequestRejected: As above; and if that has to be counted.
        """
        if self._cold.on:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, "cold reads are counted one by one")
        return self.plan(request, code)

    async def answer(
        self, plan: PullPlan, request: PullMessage, *, again: bool = False
    ) -> PullMessageReply:
        """Answer with what the queue has now; ``again`` after a wait, when nothing is committed.

        Raises:
            RequestRejected: If the store cannot read it.
        """
        moved = self.moved_to(request)
        try:
            if moved is not None:
                return self._moved(request, moved)
            if self._cold.on and self._cold.has_enough(request.consumer_group):
                self._check_hot(request)
            if plan.accepts is None:
                result = self._read(plan, request)
            else:
                result = await self._read_accepted(plan, request)
        except (StoreError, RecordError) as error:
            # Nothing wrong is ever given out. Whoever asks for the next offset can read on.
            raise unreadable(error) from error
        if request.sys_flag & _COMMIT_OFFSET and not again:
            self._offsets.commit(
                request.consumer_group, request.topic, request.queue_id, request.commit_offset
            )
        if self._cold.on and result.records and self._is_cold(result.records):
            self._cold.read(request.consumer_group, len(result.records))
        if self._stats is not None:
            self._count(request, result)
        suggested = 0
        if self._slaves is not None:
            suggested = self._slaves.suggested(request.consumer_group, result.records)
        return PullMessageReply(
            code=pull_code(result.status, request.queue_offset),
            suggest_which_broker_id=suggested,
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            topic_sys_flag=plan.topic_sys_flag,
            group_sys_flag=plan.group_sys_flag,
            messages=result.records,
            remark=result.status.name,
        )

    def moved_to(self, request: PullMessage) -> QueueOffset | None:
        """Where an operator wants the group to go on instead; it is told so once."""
        return self._offsets.reset_to(
            request.consumer_group, request.topic, request.queue_id, request.queue_offset
        )

    def _check_hot(self, request: PullMessage) -> None:
        """Let a group read that has read enough of what is cold, if what it wants is not."""
        first = self._store.read(request.topic, request.queue_id, request.queue_offset, max_count=1)
        if first.records and self._is_cold(first.records):
            raise RequestRejected(
                ResponseCode.SYSTEM_BUSY,
                f"This consumer group is reading cold data. It has been flow control: {WINDOW_MS} "
                "ms later it may read on; updateColdDataFlowCtrGroupConfig allows it more",
            )

    def _is_cold(self, records: bytes) -> bool:
        head = split(records, 0, len(records))[0]
        return self._cold.is_cold(LogOffset(head[_LOG_OFFSET]))

    def _moved(self, request: PullMessage, moved: QueueOffset) -> PullMessageReply:
        """Send a reader to where an operator wants its group to go on."""
        return PullMessageReply(
            code=ResponseCode.PULL_OFFSET_MOVED,
            next_begin_offset=moved,
            min_offset=self._store.min_offset(request.topic, request.queue_id),
            max_offset=self._store.max_offset(request.topic, request.queue_id),
            messages=b"",
            remark=ReadStatus.OFFSET_RESET.name,
        )

    def _count(self, request: PullMessage, result: ReadResult) -> None:
        assert self._stats is not None
        if result.status is ReadStatus.FOUND:
            self._stats.get(
                request.consumer_group, request.topic, result.count, len(result.records)
            )
        else:
            self._stats.miss()

    async def _wait(self, plan: PullPlan, request: PullMessage, wait_ms: int) -> None:
        if self._waiting.is_full:
            # "Nothing yet" would have clients ask again at once: after a refusal they pause.
            raise RequestRejected(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._waiting)} pulls wait on this broker, and no more may: "
                "use fewer consumers or queues, or raise pullThreadPoolQueueCapacity",
            )
        await self._waiting.grown(
            request.topic,
            request.queue_id,
            request.queue_offset,
            wait_ms,
            plan.matches,
            plan.accepts,
        )

    def _read(self, plan: PullPlan, request: PullMessage) -> ReadResult:
        count, size = read_limits(request.max_msg_nums, request.max_msg_bytes, request.bulk)
        return self._store.read(
            request.topic,
            request.queue_id,
            request.queue_offset,
            max_count=count,
            max_bytes=size,
            matches=plan.matches,
        )

    async def _read_accepted(self, plan: PullPlan, request: PullMessage) -> ReadResult:
        """Read records, and keep those whose properties an expression accepts."""
        accepts = plan.accepts
        assert accepts is not None
        max_count, max_bytes = read_limits(
            request.max_msg_nums, request.max_msg_bytes, request.bulk
        )
        last_to_scan = request.queue_offset + max(MAX_SCAN_ENTRIES, max_count)
        at = request.queue_offset
        kept: list[bytes] = []
        size = looked_at = 0
        while True:
            try:
                result = self._store.read(
                    request.topic,
                    request.queue_id,
                    at,
                    max_count=min(_FILTERED_AT_ONCE, last_to_scan - at),
                    max_bytes=MAX_READ_BYTES,
                )
            except StoreError:
                if at == request.queue_offset:
                    raise
                break  # what is before it can be given, and the next pull is told
            if result.status is not ReadStatus.FOUND:
                break
            at, full = result.next_offset, False
            records = result.records
            start = 0
            while start < len(records):
                if accepts.sieve.is_spent:
                    await accepts.sieve.turn()
                head, _, _, _, properties, end = split(records, start, len(records))
                if accepts(records[properties:end]):
                    if kept and size + end - start > max_bytes:
                        at, full = QueueOffset(head[_QUEUE_OFFSET]), True
                        break
                    kept.append(records[start:end])
                    size += end - start
                    if len(kept) >= max_count:
                        at, full = QueueOffset(head[_QUEUE_OFFSET] + 1), True
                        break
                start = end
            looked_at += len(result.records)
            if full or at >= last_to_scan or looked_at >= _MAX_FILTERED_BYTES:
                break
            await asyncio.sleep(0)
        if at == request.queue_offset:
            return result  # there was nothing to look at
        return replace(
            result,
            status=ReadStatus.FOUND if kept else ReadStatus.NO_MATCHED_MESSAGE,
            next_offset=at,
            records=b"".join(kept),
            count=len(kept),
        )
