"""Pulls at a follower: what is here is handed out, and nobody is moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker.support.sending_parts import Sender, SendingParts, put

from rocketpipe.broker.delivery.cold_reads import ColdReads
from rocketpipe.broker.delivery.filtering import Filters
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.delivery.pull_plan import PullPlanner, PullRules
from rocketpipe.broker.handlers.follower_pulling import LEADER_ID, FollowerPullHandlers
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import read_reply, to_command
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.remoting.router import Router
from rocketpipe.testing.clock import ManualClock

ME = 2
ASK = PullMessage(
    consumer_group="g",
    topic="t",
    queue_id=0,
    queue_offset=QueueOffset(0),
    max_msg_nums=32,
    sys_flag=int(PullFlag.SUBSCRIPTION),
    commit_offset=QueueOffset(0),
    suspend_timeout_millis=0,
    subscription="*",
    sub_version=0,
)


class Follower:
    """Three messages in a queue, of which a leader may have more."""

    def __init__(self, parts: SendingParts) -> None:
        self.parts = parts
        self.offsets = parts.tables.offsets
        topics = parts.tables.topics
        topics.update(TopicSettings(name="t", read_queues=1, write_queues=1), 1)
        parts.store.append([[put()], [put()], [put()]])
        parts.store.dispatch()
        self.handlers = FollowerPullHandlers(
            parts.store,
            PullPlanner(topics, parts.tables.groups, ClientTable(), Filters(), PullRules()),
            self.offsets,
            WaitingPulls(parts.clock),
            parts.clock,
            ColdReads(parts.config, parts.store, parts.clock),
        )
        self.router = Router(self.handlers)

    async def pull(self, offset: int, **changes: Any) -> PullMessageReply:
        asked = replace(ASK, queue_offset=QueueOffset(offset), **changes)
        answer = await self.router.answer(to_command(asked, 1), cast("Any", Sender()))
        return read_reply(asked, answer)  # type: ignore[return-value]


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    parts = SendingParts(tmp_path, ManualClock())
    yield Follower(parts)
    parts.abandon()


async def test_what_is_here_is_read_and_the_leader_asked_next(follower: Follower) -> None:
    reply = await follower.pull(1)
    assert (reply.code, reply.next_begin_offset, reply.suggest_which_broker_id) == (
        ResponseCode.SUCCESS,
        3,
        LEADER_ID,
    )


async def test_while_nobody_leads_this_one_is_asked_again(follower: Follower) -> None:
    follower.handlers.suggested = lambda: ME
    assert (await follower.pull(1)).suggest_which_broker_id == ME


@pytest.mark.parametrize("offset", [4, 1000])
async def test_who_is_ahead_of_this_follower_is_not_moved_back(
    follower: Follower, offset: int
) -> None:
    reply = await follower.pull(offset)
    assert reply.code == ResponseCode.PULL_NOT_FOUND
    assert (reply.next_begin_offset, reply.suggest_which_broker_id) == (offset, LEADER_ID)


async def test_who_wants_what_is_gone_here_asks_the_leader(follower: Follower) -> None:
    reply = await follower.pull(-1)
    assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert (reply.next_begin_offset, reply.suggest_which_broker_id) == (-1, LEADER_ID)
    follower.handlers.suggested = lambda: ME
    reply = await follower.pull(-1)
    assert reply.code == ResponseCode.PULL_NOT_FOUND, "or it would ask here again and again"


async def test_a_pull_commits_nothing_here(follower: Follower) -> None:
    flags = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)
    await follower.pull(1, sys_flag=flags, commit_offset=QueueOffset(1))
    assert follower.offsets.committed("g", "t", 0) is None


async def test_a_group_that_was_moved_is_told_so_by_the_leader(follower: Follower) -> None:
    follower.offsets.reset("g", "t", 0, QueueOffset(1), online=True)
    for _ in range(2):
        reply = await follower.pull(3)
        assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert (reply.next_begin_offset, reply.suggest_which_broker_id) == (3, LEADER_ID)
    assert follower.offsets.reset_to("g", "t", 0, 3) == 1, "whoever leads next can tell"


async def test_who_asks_where_it_was_moved_to_is_answered(follower: Follower) -> None:
    follower.offsets.reset("g", "t", 0, QueueOffset(1), online=True)
    assert (await follower.pull(1)).code == ResponseCode.SUCCESS
