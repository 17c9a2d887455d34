"""Pulls that find something, answered at once by plans that are made once.

A pull that finds nothing, that filters by an expression, or that nobody has planned for yet because
it is refused, is left to ``handlers.pulling``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from rocketpipe.broker.counts import Answered
from rocketpipe.broker.delivery.pull_plan import PullPlan, read_limits
from rocketpipe.broker.delivery.slave_reads import SlaveReads
from rocketpipe.broker.fast_path.asks import Ask, read_ask
from rocketpipe.broker.fast_path.outbox import Outbox
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.frame import bounds_at, decode_frame
from rocketpipe.protocol.hot import pull_reply_head, read_pull
from rocketpipe.protocol.request import from_command
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.reader import ReadStatus, everything

MAX_PLANS: Final = 10_000
_COMMIT: Final = int(PullFlag.COMMIT_OFFSET)

#: A whole frame, how many messages it has, and how many bytes of them.
Answer: TypeAlias = tuple[bytes, int, int]


class LanePlan(msgspec.Struct, frozen=True, gc=False):
    """What all pulls of a consumer from a queue have in common, but for where they read."""

    group: str
    topic: str
    queue_id: int
    matches: Callable[[int], bool]
    max_count: int
    max_bytes: int
    #: Whether they tell how far the group has come.
    commits: bool


_PULLED: Final = Answered(RequestCode.PULL_MESSAGE, ResponseCode.SUCCESS, waited=False)


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
        #: By what is left of a header, see ``asks``.
        self._plans: dict[bytes, LanePlan] = {}
        self._made_at: tuple[object, ...] = ()

    def take(self, buffer: bytes, frame: Frame, peer: PeerConnection) -> bool:
        """Answer a pull at once; False if it is for the router."""
        at, body, _ = frame
        ask = read_ask(buffer, at, body)
        if ask is None:
            return False
        rest, opaque, offset, commit_offset = ask
        stamp = self._stamp()
        if stamp != self._made_at or len(self._plans) > MAX_PLANS:
            self._plans.clear()
            self._made_at = stamp
        plan = self._plans.get(rest) or self._planned(ask, buffer, at, body)
        if plan is None:
            return False
        resets = self._offsets.resets
        if resets and (plan.group, plan.topic, plan.queue_id) in resets:
            return False
        try:
            answer = None
            if plan.matches is everything:
                answer = self._run(plan, opaque, offset)
            if answer is None:
                answer = self._read(plan, opaque, offset)
            if answer is None:
                return False
            if plan.commits and commit_offset >= 0:
                place = QueueOffset(commit_offset)
                self._offsets.commit(plan.group, plan.topic, plan.queue_id, place)
        except RocketPipeError:
            return False
        reply, count, size = answer
        if self._stats is not None:
            self._stats.get(plan.group, plan.topic, count, size)
            self._stats.counts.answered(_PULLED, 0)
        self._outgoing.post(peer, reply)
        peer.posted_much(size)
        return True

    def _run(self, plan: LanePlan, opaque: int, offset: int) -> Answer | None:
        """Answer with what lies close together in the log, as most that is wanted does."""
        run = self._store.run(plan.topic, plan.queue_id, offset, plan.max_count, plan.max_bytes)
        if run is None:
            return None
        suggested = 0
        if self._slaves is not None:
            suggested = self._slaves.suggested_at(plan.group, run.start)
        size = run.size
        head = pull_reply_head(
            opaque, 0, suggested, run.next_offset, run.min_offset, run.max_offset, b"FOUND", size
        )
        reply = run.behind(head)
        return None if reply is None else (reply, run.count, size)

    def _read(self, plan: LanePlan, opaque: int, offset: int) -> Answer | None:
        """Answer with what a filter lets through, or with what has to be looked at closely."""
        found = self._store.read(
            plan.topic,
            plan.queue_id,
            QueueOffset(offset),
            max_count=plan.max_count,
            max_bytes=plan.max_bytes,
            matches=plan.matches,
        )
        if found.status is not ReadStatus.FOUND:
            return None
        suggested = 0
        if self._slaves is not None:
            suggested = self._slaves.suggested(plan.group, found.records)
        size = len(found.records)
        head = pull_reply_head(
            opaque,
            0,
            suggested,
            found.next_offset,
            found.min_offset,
            found.max_offset,
            b"FOUND",
            size,
        )
        return head + found.records, found.count, size

    def _planned(self, ask: Ask, buffer: bytes, at: int, body: int) -> LanePlan | None:
        """Read a header the long way, and keep what its consumer's next pulls say as well."""
        rest, *numbers = ask
        header = read_pull(buffer, at, body)
        bounds = bounds_at(buffer, at, len(buffer))
        if header is None or bounds is None:
            return None
        asked = header.fields
        if [header.opaque, asked.queue_offset, asked.commit_offset] != numbers:
            return None
        try:
            request = from_command(PullMessage, decode_frame(buffer, bounds))
            plan = self._plan(request, header.code)
        except RocketPipeError:
            return None
        if plan.accepts or plan.topic_sys_flag is not None or plan.group_sys_flag is not None:
            return None
        max_count, max_bytes = read_limits(asked.max_msg_nums, asked.max_msg_bytes, asked.bulk)
        made = LanePlan(
            asked.consumer_group,
            asked.topic,
            asked.queue_id,
            plan.matches,
            max_count,
            max_bytes,
            bool(asked.sys_flag & _COMMIT),
        )
        # Not before: to make a plan may make a group, which is a change.
        self._made_at = self._stamp()
        self._plans[rest] = made
        return made
