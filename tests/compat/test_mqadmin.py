"""RocketMQ's own ``mqadmin`` against our servers: what it prints, as it exits 0 whatever happens.

All commands run once, in the order of the list, in one Java; each test then holds what its command
printed against what it should have. What a command prints may name what a later one asks for.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.compat.clients.mqadmin import started

from rocketpipe import blocking
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.compat

CLUSTER = "DefaultCluster"
IN_CLUSTER = ("-c", CLUSTER)
#: No command of mqadmin's: from here on clients of ours are there.
OURS = "ours"


@dataclass(frozen=True, slots=True)
class Run:
    """One command, what it has to print (regular expressions), and what is learnt from that."""

    words: str
    prints: tuple[str, ...]
    learns: dict[str, str] = field(default_factory=dict)
    #: It is to fail, and to say why.
    fails: bool = False


def run(words: str, *prints: str, fails: bool = False, **learns: str) -> Run:
    return Run(words, prints, learns, fails)


SCRIPT = (
    # Topics
    run("updateTopic -c DefaultCluster -t orders -r 2 -w 2", "create topic to {broker} success"),
    run(
        "updateTopic -b {broker} -t typed -r 1 -w 1 -a +message.type=FIFO",
        r"attributes=\{{\+message.type=FIFO\}}",
    ),
    run("updateTopic -b {broker} -t bad*name", "CODE: 29", fails=True),
    run("updateTopicList -b {broker} -f {topics}", r"submit batch of topic config to .* success"),
    run("updateTopicPerm -c DefaultCluster -t typed -p 4", "perm from 6 to 4 in {broker} success"),
    run("topicList", r"(?m)^orders$", r"(?m)^listed-1$"),
    run("topicRoute -t orders", r'"readQueueNums":2', r'"brokerName":"broker-a"'),
    run("topicRoute -t orders -l", r"(?m)^DefaultCluster +broker-a +\{{0={broker}\}} +2 +2 +6"),
    run("topicClusterList -t orders", r"(?m)^DefaultCluster$"),
    run("topicStatus -t orders", r"(?m)^broker-a +0 +0 +0 ", r"(?m)^broker-a +1 +0 +0 "),
    run("updateOrderConf -t orders -m put -v broker-a:2", "update orderConf success"),
    run("updateOrderConf -t orders -m get", r"orderConf=\[broker-a:2\]"),
    run("updateOrderConf -t orders -m delete", "delete orderConf success"),
    run("allocateMQ -t orders -i c1,c2", r'"c1":\[\{{.*"queueId":0.*"c2":\[\{{.*"queueId":1'),
    # Groups
    run("updateSubGroup -c DefaultCluster -g billing -r 3", "retryMaxTimes=3"),
    run("updateSubGroup -b {broker} -g audit", "create subscription group to {broker} success"),
    run(
        "updateSubGroupList -b {broker} -f {groups}",
        "submit batch of group config to {broker} success",
    ),
    run("getConsumerConfig -g billing", r"retryMaxTimes += +3"),
    run("getConsumerConfig -g listed", r"groupName += +listed"),
    # Messages
    run(
        "sendMessage -t orders -p hello -k K1 -c tagA -b broker-a -i 0",
        r"broker-a +0 +SEND_OK",
        unique=r"SEND_OK +(\w+)",
    ),
    run("sendMessage -t orders -p world -k K2 -c tagB -b broker-a -i 1", r"broker-a +1 +SEND_OK"),
    run("queryMsgByKey -t orders -k K1", r"{unique} +0 +0"),
    run("queryMsgByUniqueKey -t orders -i {unique}", r"Keys: +\[K1\]", r"Queue Offset: +0"),
    run(
        "queryMsgByOffset -t orders -b broker-a -i 0 -o 0",
        r"Tags: +\[tagA\]",
        offset_id=r"OffsetID: +(\w+)",
    ),
    run("queryMsgById -t orders -i {offset_id}", r"OffsetID: +{offset_id}", r"Keys: +\[K1\]"),
    run("queryMsgById -t orders -i {nowhere}", "CODE: 208", fails=True),
    run("printMsg -t orders -d true", "BODY: hello", "BODY: world", "maxOffset=1"),
    run("printMsgByQueue -t orders -a broker-a -i 1 -p true -d true", "BODY: world"),
    run("consumeMessage -t orders -b broker-a -i 0 -o 0 -c 1", "Consume ok", "BODY: hello"),
    run("checkMsgSendRT -t orders -a 3 -s 10", r"broker-a +0 +true", "Avg RT"),
    run("sendMsgStatus -b broker-a -s 10 -c 2", "sendStatus=SEND_OK", "topic=broker-a"),
    run("queryCq -t orders -q 0 -i 0 -c 1 -b {broker}", "max: [1-9]", "physicOffset=0"),
    # Clients of Java's, which stay
    run("consume billing orders"),
    run("produce makers orders"),
    run(
        "consumerConnection -g billing",
        r"JAVA +V5_3_3",
        r"(?m)^orders +\*",
        "MessageModel: CLUSTERING",
        client=r"(?m)^(\S+@billing) ",
    ),
    run("consumerConnection -g audit", "CODE: (17|206)", fails=True),
    run("producerConnection -g makers -t orders", r"@makers +127.0.0.1:\d+ +JAVA +V5_3_3"),
    run("producer -b {broker}", r"producer group \(makers\) instance : clientId=\S+@makers"),
    run("consumerStatus -g billing", r"1 +{client} +V5_3_3", "Rebalance OK"),
    run(
        "consumerStatus -g billing -i {client} -s", "Consumer Subscription", "ConsumeMessageThread"
    ),
    run("queryMsgById -t orders -i {offset_id} -g billing -d {client}", "consumeResult=CR_SUCCESS"),
    # Consumers of ours
    run(OURS),
    run(
        "consumerConnection -g pullers",
        r"127.0.0.1:\d+ +PYTHON +V5_3_1",
        r"(?m)^orders +\*",
        "ConsumeType: CONSUME_ACTIVELY",
    ),
    run("consumerConnection -g poppers", "PYTHON", "ConsumeType: CONSUME_POP"),
    run("consumerConnection -g pushers", "PYTHON", "ConsumeType: CONSUME_PASSIVELY"),
    run("consumerStatus -g pullers", r"(?m)^1 +\S+ +V5_3_1 ", "Rebalance OK"),
    run("consumerStatus -g poppers", r"(?m)^1 +\S+ +V5_3_1 ", "Rebalance OK"),
    run(
        "consumerStatus -g pushers",
        r"(?m)^1 +\S+ +V5_3_1 ",
        "Rebalance OK",
        pusher=r"(?m)^1 +(\S+) ",
    ),
    run(
        "consumerStatus -g pushers -i {pusher} -s",
        "Consumer Properties",
        "Consumer Subscription",
        "task workers of pushers",
    ),
    run("queryMsgTraceById -i {traced} -t RMQ_SYS_TRACE_TOPIC", r"(?m)^Pub +tracers .* success"),
    # How far they are
    run("statsAll -t orders", r"(?m)^orders +billing +\d+ +\d+\.\d\d"),
    run("brokerConsumeStats -b {broker} -l 0 -t 5000", "Diff Total: "),
    run(
        "resetOffsetByTime -g billing -t orders -s 0",
        r"(?m)^broker-a +0 +0 *$",
        r"(?m)^broker-a +1 +0 *$",
    ),
    run(
        "resetOffsetByTime -g billing -t orders -s -1 -b {broker} -q 1 -o 1",
        r"reset consumer offset to 1",
    ),
    run("skipAccumulatedMessage -g audit -t orders", r"(?m)^broker-a +0 +[1-9]"),
    run("cloneGroupOffset -s billing -d listed -t orders", "clone group offset success"),
    run("resetOffsetByTime -g nobody -t orders -s 0", "Group nobody does not exist", fails=True),
    run("consumerProgress -g billing", r"(?m)^orders +broker-a +0 +", "Consume Diff Total: "),
    run("consumerProgress", r"(?m)^billing +1 +V5_3_3 +PUSH +CLUSTERING"),
    run("topicList -c", r"(?m)^DefaultCluster +orders +(billing|audit|listed)"),
    # Brokers
    run("clusterList", r"(?m)^DefaultCluster +broker-a +0 +{broker} +V5_3_1 +[1-9]?\d*\.\d\d\("),
    run("clusterList -m", r"(?m)^DefaultCluster +broker-a +0 +0 +[1-9]\d* +\d+"),
    run(
        "brokerStatus -b {broker}",
        r"(?m)^putTps +: \d",
        r"(?m)^msgPutTotalTodayNow +: [1-9]",
        r"(?m)^scheduleMessageOffset_18 *: 0,0",
    ),
    run("getBrokerConfig -b {broker}", r"brokerName += +broker-a", r"maxMessageSize += +4194304"),
    run(
        "updateBrokerConfig -b {broker} -k maxMessageSize -v 1000000",
        "update broker config success, {broker}",
    ),
    run("getBrokerConfig -c DefaultCluster", r"maxMessageSize += +1000000"),
    run("updateBrokerConfig -b {broker} -k listenPort -v 1", "CODE: 16", fails=True),
    run("updateBrokerConfig -b {broker} -k brokerRole -v SLAVE", "CODE: 29", fails=True),
    run("setConsumeMode -b {broker} -t orders -g billing -m POP -q 2", "consume mode\\[POP\\]"),
    run("setConsumeMode -b {broker} -t orders -g billing -m PULL", "consume mode\\[PULL\\]"),
    run("setConsumeMode -b {broker} -t nowhere -g billing -m POP", "CODE: 17", fails=True),
    run("setCommitLogReadAheadMode -b {broker} -m 1", "readahead mode success, mode: 1"),
    run("setCommitLogReadAheadMode -c DefaultCluster -m 0", "readahead mode success, mode: 0"),
    run("updateColdDataFlowCtrGroupConfig -b {broker} -g billing -v 4096", "success, {broker}"),
    run("getColdDataFlowCtrInfo -b {broker}", '"billing":4096', '"cgColdReadThreshold":3145728'),
    run("removeColdDataFlowCtrGroupConfig -b {broker} -g billing", "threshold success, {broker}"),
    run("cleanExpiredCQ -b {broker}", "success"),
    run("cleanUnusedTopic -c DefaultCluster", "success"),
    run("deleteExpiredCommitLog -b {broker}", "success"),
    run("exportConfigs -c DefaultCluster -f {scratch}", "configs.json success"),
    run("exportMetadata -c DefaultCluster -f {scratch} -t", "topic.json success"),
    run("exportMetrics -c DefaultCluster -f {scratch}", "metrics.json success"),
    # NameServers
    run("getNamesrvConfig", r"orderMessageEnable += +false"),
    run("updateNamesrvConfig -k orderMessageEnable -v true", "update name server config success"),
    run("updateKvConfig -s ns -k k -v v", "create or update kv config to namespace success"),
    run("deleteKvConfig -s ns -k k", "delete kv config from namespace success"),
    run("wipeWritePerm -b broker-a", r"wipe write perm of broker\[broker-a\] .* OK, [1-9]"),
    run("addWritePerm -b broker-a", r"add write perm of broker\[broker-a\] .* OK, [1-9]"),
    # The end of some
    run(
        "deleteSubGroup -c DefaultCluster -g audit -r true",
        r"delete subscription group \[audit\] .* success",
    ),
    run(
        "deleteTopic -c DefaultCluster -t typed", r"delete topic \[typed\] from NameServer success"
    ),
    run("topicStatus -t typed", "CODE: 17", fails=True),
)


def topic(name: str) -> dict[str, Any]:
    return {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}


@dataclass(frozen=True, slots=True)
class Outcome:
    printed: str
    expected: tuple[str, ...]


def begin_ours(name_server: str, staying: ExitStack) -> str:
    """Have one consumer of each kind, and a message that is traced, whose id this gives."""
    pulls = staying.enter_context(blocking.PullConsumer(name_server, group="pullers"))
    pulls.subscribe("orders")
    pops = staying.enter_context(blocking.SimpleConsumer(name_server, group="poppers"))
    pops.subscribe("orders")
    pushes = blocking.PushConsumer(name_server, group="pushers")
    handled = threading.Event()

    @pushes.on("orders")
    def handle(message: ReceivedMessage) -> None:
        handled.set()

    staying.enter_context(pushes)
    with blocking.Producer(name_server, group="tracers", trace=True) as producer:
        sent = producer.send("orders", b"traced", keys=["K3"])
    assert handled.wait(60)
    return sent.message_id


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Outcome]]:
    scratch = tmp_path_factory.mktemp("mqadmin")
    (scratch / "topics.json").write_text(json.dumps([topic("listed-1"), topic("listed-2")]))
    (scratch / "groups.json").write_text(json.dumps([{"groupName": "listed"}]))
    found: list[Outcome] = []
    with (
        serving(scratch) as servers,
        started(servers.name_server, scratch) as admin,
        ExitStack() as staying,
    ):
        known = {
            "broker": servers.broker,
            "scratch": str(scratch),
            "topics": str(scratch / "topics.json"),
            "groups": str(scratch / "groups.json"),
        }
        for each in SCRIPT:
            if each.words == OURS:
                known["traced"] = begin_ours(servers.name_server, staying)
                found.append(Outcome("", ()))
                continue
            printed = admin.run(each.words.format(**known))
            expected = tuple(
                text.format(**{name: re.escape(value) for name, value in known.items()})
                for text in each.prints
            )
            for name, pattern in each.learns.items():
                match = re.search(pattern, printed)
                known[name] = match[1] if match else f"no-{name}"
            if "offset_id" in each.learns:
                known["nowhere"] = known["offset_id"][:-16] + "00000000000FFFFF"
            found.append(Outcome(printed, expected))
        yield found


@pytest.mark.parametrize("number", range(len(SCRIPT)), ids=lambda number: SCRIPT[number].words)
def test_a_command_prints_what_it_should(outcomes: list[Outcome], number: int) -> None:
    outcome = outcomes[number]
    for pattern in outcome.expected:
        assert re.search(pattern, outcome.printed), f"{pattern} is not in: {outcome.printed[:3000]}"
    failed = re.search(r"(?m)^\S+Exception: ", outcome.printed) is not None
    assert failed is SCRIPT[number].fails, outcome.printed[:3000]


async def test_tools_that_use_the_vip_channel_are_served(tmp_path: Path, lasting_port: int) -> None:
    def ask(name_server: str) -> str:
        vip = "-Dcom.rocketmq.sendMessageWithVIPChannel=true"
        with started(name_server, tmp_path, vip) as admin:
            return admin.run("produce makers orders") + admin.run("clusterList")

    config = BrokerConfig(
        data=tmp_path / "store",
        port=lasting_port,
        store=StoreConfig.embedded(tmp_path / "store"),
    )
    async with name_server(NamesrvConfig(port=0)) as names:
        async with broker(replace(config, name_servers=(names,))):
            printed = await asyncio.to_thread(ask, names)
    assert re.search(rf"(?m)^DefaultCluster +broker-a +0 +127.0.0.1:{lasting_port} ", printed), (
        printed
    )
    assert "Exception" not in printed


def test_at_least_forty_commands_are_run() -> None:
    assert len({each.words.split()[0] for each in SCRIPT} - {"consume", "produce", OURS}) >= 40
