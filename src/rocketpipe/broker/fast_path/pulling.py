"""Pulls that find something, answered at once by plans that are made once.

A pull that finds nothing, that filters by an expression, or that nobody has planned for yet because
it is refused, is left to ``handlers.pulling``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from rocketpipe.broker.delivery.pull_plan import PullPlan, read_limits
from rocketpipe.broker.delivery.slave_reads import SlaveReads
from rocketpipe.broker.fast_path.outbox import Outbox
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.frame import bounds_at, decode_frame
from rocketpipe.protocol.hot import PullHeader, PullNames, pull_reply_head, read_pull
from rocketpipe.protocol.request import from_command
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.reader import ReadStatus, everything

MAX_PLANS: Final = 10_000
_COMMIT: Final = int(PullFlag.COMMIT_OFFSET)

#: A whole frame, how many messages it has, and how many bytes of them.
Answer: TypeAlias = tuple[bytes, int, int]


class PullFastPath:
    """Answers pulls that find something, by plans that are made once."""

    def __init__(
        self,
        store: MessageStore,
        offsets: OffsetTable,
        outgoing: Outbox,
        *,
        plan: Callable[[PullMessage, int], PullPlan],
        stamp: Callable[[], tuple[object, ...]],
        stats: Stats | None = None,
        slaves: SlaveReads | None = None,
    ) -> None:
        """``plan`` checks a pull; what it gave holds until ``stamp`` gives something else."""
        self._slaves = slaves
        self._store = store
        self._offsets = offsets
        self._outgoing = outgoing
        self._plan = plan
        self._stamp = stamp
        self._stats = stats
        self._plans: dict[tuple[object, ...], PullPlan] = {}
        self._made_at: tuple[object, ...] = ()

    def take(self, buffer: bytes, frame: Frame, peer: PeerConnection) -> bool:
        """Answer a pull at once; False if it is for the router."""
        at, body, _ = frame
        header = read_pull(buffer, at, body)
        if header is None:
            return False
        asked = header.fields
        plan = self._plan_of(header.code, asked, buffer, at)
        if plan is None:
            return False
        resets = self._offsets.resets
        if resets and (asked.consumer_group, asked.topic, asked.queue_id) in resets:
            return False
        count, size = read_limits(asked.max_msg_nums, asked.max_msg_bytes, asked.bulk)
        try:
            answer = None
            if plan.matches is everything:
                answer = self._run(header, count, size)
            if answer is None:
                answer = self._read(header, plan, count, size)
            if answer is None:
                return False
            if asked.sys_flag & _COMMIT and asked.commit_offset >= 0:
                self._offsets.commit(
                    asked.consumer_group,
                    asked.topic,
                    asked.queue_id,
                    QueueOffset(asked.commit_offset),
                )
        except RocketPipeError:
            return False
        reply, count, size = answer
        if self._stats is not None:
            self._stats.get(asked.consumer_group, asked.topic, count, size)
        self._outgoing.post(peer, reply)
        peer.posted_much(size)
        return True

    def _run(self, header: PullHeader, count: int, size: int) -> Answer | None:
        """Answer with what lies close together in the log, as most that is wanted does."""
        asked = header.fields
        run = self._store.run(asked.topic, asked.queue_id, asked.queue_offset, count, size)
        if run is None:
            return None
        suggested = 0
        if self._slaves is not None:
            suggested = self._slaves.suggested_at(asked.consumer_group, run.start)
        size = run.size
        head = pull_reply_head(
            header.opaque,
            0,
            suggested,
            run.next_offset,
            run.min_offset,
            run.max_offset,
            b"FOUND",
            size,
        )
        reply = run.behind(head)
        return None if reply is None else (reply, run.count, size)

    def _read(self, header: PullHeader, plan: PullPlan, count: int, size: int) -> Answer | None:
        """Answer with what a filter lets through, or with what has to be looked at closely."""
        asked = header.fields
        found = self._store.read(
            asked.topic,
            asked.queue_id,
            QueueOffset(asked.queue_offset),
            max_count=count,
            max_bytes=size,
            matches=plan.matches,
        )
        if found.status is not ReadStatus.FOUND:
            return None
        suggested = 0
        if self._slaves is not None:
            suggested = self._slaves.suggested(asked.consumer_group, found.records)
        size = len(found.records)
        head = pull_reply_head(
            header.opaque,
            0,
            suggested,
            found.next_offset,
            found.min_offset,
            found.max_offset,
            b"FOUND",
            size,
        )
        return head + found.records, found.count, size

    def _plan_of(self, code: int, asked: PullNames, buffer: bytes, at: int) -> PullPlan | None:
        stamp = self._stamp()
        if stamp != self._made_at or len(self._plans) > MAX_PLANS:
            self._plans.clear()
            self._made_at = stamp
        key = (
            code,
            asked.consumer_group,
            asked.topic,
            asked.queue_id,
            asked.sys_flag,
            asked.subscription,
            asked.expression_type,
            asked.sub_version,
        )
        plan = self._plans.get(key)
        if plan is None:
            bounds = bounds_at(buffer, at, len(buffer))
            assert bounds is not None
            try:
                request = from_command(PullMessage, decode_frame(buffer, bounds))
                plan = self._plan(request, code)
            except RocketPipeError:
                return None
            if plan.accepts or plan.topic_sys_flag is not None or plan.group_sys_flag is not None:
                return None
            # Not before: to make a plan may make a group, which is a change.
            self._made_at = self._stamp()
            self._plans[key] = plan
        return plan
