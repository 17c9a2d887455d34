"""A broker with this feature stages, and shows what is committed, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support.sending_parts import sent
from tests.broker.support.staging_parts import staged

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.errors import RequestRejected
from rocketpipe.model.names import STAGING_TOPIC
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import UpdateBrokerConfig
from rocketpipe.protocol.requests.offsets import GetMaxOffset
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.protocol.requests.staging import CommitStages, StageList, StageMessages
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
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


async def refusal(caller: Caller, address: str, part: StageMessages) -> RequestRejected:
    with pytest.raises(RequestRejected) as caught:
        await caller.call(address, part)
    return caught.value


async def test_parts_go_by_the_settings_that_are_in_force(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Caller() as caller:
        await caller.call(servers.broker, staged("s", b"a" * 2000))
        await caller.call(servers.broker, UpdateBrokerConfig(properties=b"maxMessageSize=1000"))
        long = await refusal(caller, servers.broker, staged("s", b"b" * 2000, part=1))
        assert long.code == ResponseCode.MESSAGE_ILLEGAL
        await caller.call(servers.broker, UpdateBrokerConfig(properties=b"brokerPermission=4"))
        closed = await refusal(caller, servers.broker, staged("s", b"b", part=1))
        assert closed.code == ResponseCode.NO_PERMISSION
        await caller.call(servers.broker, COMMIT)  # what was taken before
        end = await caller.call(servers.broker, GetMaxOffset(topic="t", queue_id=0))
        assert end.offset == 1


async def test_staged_timers_are_limited_as_others_are(tmp_path: Path) -> None:
    async with name_server(NamesrvConfig(port=0)) as name_servers, Caller() as caller:
        config = BrokerConfig(
            data=tmp_path,
            name_servers=(name_servers,),
            port=0,
            store=StoreConfig.embedded(tmp_path, max_waiting_timers=1),
        )
        async with broker(config) as address:
            later = b"TIMER_DELAY_SEC\x013600\x02UNIQ_KEY\x01K\x02"
            await caller.call(address, staged("s", b"a", properties=later))
            await caller.call(address, COMMIT)
            full = await refusal(caller, address, staged("z", b"b", batch=1, properties=later))
            assert (full.code, "maxWaitingTimers" in str(full)) == (ResponseCode.SYSTEM_BUSY, True)
