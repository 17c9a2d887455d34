"""A broker with this feature answers operators, and counts what it does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support.asking import message, topic

from rocketpipe.broker.features.administration.brokers import (
    CleaningHandlers,
    SettingHandlers,
    StatsHandlers,
)
from rocketpipe.broker.features.administration.progress import ProgressHandlers, QueueHandlers
from rocketpipe.broker.features.administration.resets import CloneHandlers, ResetHandlers
from rocketpipe.broker.features.administration.running_info import ConnectionHandlers, RelayHandlers
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.requests.brokers import GetBrokerRuntimeInfo, ViewBrokerStats
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import handled_requests
from rocketpipe.testing import cluster

HANDLERS = (
    CleaningHandlers,
    CloneHandlers,
    ConnectionHandlers,
    ProgressHandlers,
    QueueHandlers,
    RelayHandlers,
    ResetHandlers,
    SettingHandlers,
    StatsHandlers,
)


def test_every_request_of_an_operator_is_answered() -> None:
    served = {
        int(code) for group in HANDLERS for kind in handled_requests(group) for code in kind.codes
    }
    assert served == {
        *(25, 26, 28, 43, 45),
        *(203, 204, 208, 222, 223),
        *(300, 303, 306, 307, 308, 309, 314, 315, 316, 317, 321, 328, 329, 343, 345),
    }
    assert RequestCode.GET_BROKER_HA_STATUS not in served


@pytest.mark.scenario
async def test_what_is_sent_and_pulled_is_counted_on_every_path(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Caller() as caller:
        await caller.call(servers.broker, topic("t"))
        await caller.call(servers.broker, topic("straight", ordered=True))
        await caller.call(servers.broker, message("t", b"by the lane"))
        await caller.call(servers.broker, message("straight", b"by the router"))
        pull = PullMessage(
            consumer_group="g",
            topic="t",
            queue_id=0,
            queue_offset=QueueOffset(0),
            max_msg_nums=32,
            sys_flag=4,
            commit_offset=QueueOffset(0),
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        await caller.call(servers.broker, pull)
        values = (await caller.call(servers.broker, GetBrokerRuntimeInfo())).values.table
        assert (values["msgPutTotalTodayNow"], values["msgGetTotalTodayNow"]) == ("2", "1")
        for name, key in (
            ("TOPIC_PUT_NUMS", "t"),
            ("TOPIC_PUT_NUMS", "straight"),
            ("GROUP_GET_NUMS", "t@g"),
        ):
            request = ViewBrokerStats(stats_name=name, stats_key=key)
            stats = (await caller.call(servers.broker, request)).stats
            assert stats.day is not None
            assert stats.day.total == 1
