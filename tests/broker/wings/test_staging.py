"""A broker with this wing stages, and shows what is committed, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.sending_parts import sent
from tests.broker.staging_parts import staged

from rocketpipe.errors import RequestRejected
from rocketpipe.model.names import STAGING_TOPIC
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import GetMaxOffset
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.protocol.requests.staging import CommitStages, StageList
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing import cluster

COMMIT = CommitStages(
    producer_group="p", application="app", batch=0, named=StageList(stages={"s": 1})
)


async def test_parts_and_commits_are_answered_and_outlive_the_broker(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Caller() as caller:
        await caller.call(servers.broker, staged("s", b"a", b"b"))
    async with cluster(tmp_path) as servers, Caller() as caller:
        assert not (await caller.call(servers.broker, COMMIT)).duplicate
    async with cluster(tmp_path) as servers, Caller() as caller:
        assert (await caller.call(servers.broker, COMMIT)).duplicate
        end = await caller.call(servers.broker, GetMaxOffset(topic="t", queue_id=0))
        assert end.offset == 2


async def test_nobody_else_reads_or_writes_what_is_staged(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Caller() as caller:
        await caller.call(servers.broker, staged("s", b"a"))
        pull = PullMessage(
            consumer_group="readers",
            topic=STAGING_TOPIC,
            queue_id=0,
            queue_offset=QueueOffset(0),
            max_msg_nums=32,
            sys_flag=4,
            commit_offset=QueueOffset(0),
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        for request in (pull, sent(STAGING_TOPIC)):
            with pytest.raises(RequestRejected) as caught:
                await caller.call(servers.broker, request)
            assert caught.value.code == ResponseCode.NO_PERMISSION
