"""The broker's own settings, numbers and cleaning, asked over a socket."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Ask
from tests.broker.support.asking import commit, group, message, topic

from rocketpipe.broker.features.administration.brokers import MAX_CONFIG_BYTES
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import (
    CleanExpiredQueues,
    CleanUnusedTopics,
    DeleteExpiredLog,
    GetAllConsumerOffsets,
    GetAllDelayOffsets,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    UpdateBrokerConfig,
    ViewBrokerStats,
)
from rocketpipe.protocol.requests.topics import GetTopicStats

pytestmark = pytest.mark.scenario

#: What RocketMQ's tools take from the answer, and cannot do without.
LOOKED_FOR = {
    *("brokerVersionDesc", "putTps", "getTransferredTps", "getTransferedTps", "brokerActive"),
    *("sendThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills", "runtime"),
    *("pullThreadPoolQueueSize", "pullThreadPoolQueueHeadWaitTimeMills", "bootTimestamp"),
    *("pageCacheLockTimeMills", "earliestMessageTimeStamp", "commitLogDiskRatio"),
    *("msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalTodayNow"),
    *("msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning", "msgGetTotalTodayNow"),
    *("timerReadBehind", "timerOffsetBehind", "timerCongestNum"),
    *("timerEnqueueTps", "timerDequeueTps", "dispatchBehindBytes", "commitLogDirCapacity"),
    *("remainHowManyDataToFlush", "EndTransactionQueueSize", "putMessageDistributeTime"),
}


async def test_settings_are_told_with_their_version(ask: Ask) -> None:
    before = await ask(GetBrokerConfig())
    assert b"\nbrokerPermission=6\n" in before.properties
    await ask(UpdateBrokerConfig(properties=b"brokerPermission=4\nlongPollingEnable=false\n"))
    after = await ask(GetBrokerConfig())
    assert b"\nbrokerPermission=4\n" in after.properties
    assert before.version != after.version


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (b"brokerPermission=4\nstorePathRootDir=elsewhere\n", ResponseCode.NO_PERMISSION),
        (b"brokerPermission=4\nprofile=prod\n", ResponseCode.INVALID_PARAMETER),
        (b"brokerPermission=9\n", ResponseCode.INVALID_PARAMETER),
        (b"x" * (MAX_CONFIG_BYTES + 1), ResponseCode.INVALID_PARAMETER),
    ],
    ids=["a path", "a restart", "out of range", "too much"],
)
async def test_a_change_is_made_whole_or_not_at_all(
    ask: Ask, lines: bytes, code: ResponseCode
) -> None:
    with pytest.raises(RequestRejected) as refused:
        await ask(UpdateBrokerConfig(properties=lines))
    assert refused.value.code == code
    assert b"\nbrokerPermission=6\n" in (await ask(GetBrokerConfig())).properties


async def test_every_number_is_there_that_tools_look_for(ask: Ask) -> None:
    await ask(topic("t"))
    await ask(message("t"))
    values = (await ask(GetBrokerRuntimeInfo())).values.table
    assert values.keys() >= LOOKED_FOR
    assert values["msgPutTotalTodayNow"] == "1"
    assert float(values["putMessageAverageSize"]) > len(b"body")
    assert len([name for name in values if name.startswith("scheduleMessageOffset_")]) == 18


async def test_counts_are_by_topic_by_group_and_of_the_broker(ask: Ask) -> None:
    await ask(topic("t"))
    for number in range(3):
        await ask(message("t", b"%d" % number))

    async def day(name: str, key: str) -> int:
        stats = (await ask(ViewBrokerStats(stats_name=name, stats_key=key))).stats
        total: int = stats.day.total
        assert stats.minute.total == stats.hour.total == total
        return total

    assert await day("TOPIC_PUT_NUMS", "t") == 3
    assert await day("TOPIC_PUT_SIZE", "t") > 3
    assert await day("BROKER_PUT_NUMS", "DefaultCluster") == 3
    for name, key in (
        ("GROUP_GET_NUMS", "t@g"),
        ("TOPIC_PUT_NUMS", "u"),
        ("BROKER_PUT_NUMS", "Other"),
        ("ODD_NUMS", "t"),
    ):
        with pytest.raises(RequestRejected, match="not exist"):
            await day(name, key)


async def test_tables_are_given_whole(ask: Ask) -> None:
    await ask(topic("t"))
    await ask(group("g"))
    await ask(commit("g", "t", 7))
    assert (await ask(GetAllConsumerOffsets())).table.offsets["t@g"] == {0: 7}
    assert isinstance((await ask(GetAllDelayOffsets())).table.offsets, dict)


async def test_cleaning_takes_nothing_that_can_be_read(ask: Ask) -> None:
    await ask(topic("t"))
    await ask(message("t"))
    for request in (CleanExpiredQueues(), CleanUnusedTopics(), DeleteExpiredLog()):
        await ask(request)
    (held,) = (await ask(GetTopicStats(topic="t"))).stats.queues.values()
    assert (held.min_offset, held.max_offset) == (0, 1)
