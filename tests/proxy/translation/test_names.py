from __future__ import annotations

import pytest
from tests.proxy.support.calling import named

from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.translation.names import group_name, topic_name
from rocketpipe.proxy.v2 import messaging_pb2 as pb


def test_a_namespace_is_part_of_a_brokers_name() -> None:
    assert topic_name(named("t")) == "t"
    assert topic_name(named("t", "ns")) == "ns%t"
    assert topic_name(named("t"), "header") == "header%t"
    assert topic_name(named("t", "ns"), "header") == "ns%t"
    assert topic_name(named("ns%t", "ns")) == "ns%t"
    assert topic_name(named("%DLQ%g", "ns")) == "%DLQ%ns%g"
    assert group_name(named("g", "ns")) == "ns%g"


@pytest.mark.parametrize("name", ["", " ", "a b", "x" * 200, "TBW102", "rmq_sys_TABLES", "ä"])
def test_what_no_topic_is_called(name: str) -> None:
    with pytest.raises(Refused) as refused:
        topic_name(named(name))
    assert refused.value.code == pb.ILLEGAL_TOPIC


@pytest.mark.parametrize("name", ["", "a b", "x" * 200, "CID_RMQ_SYS_TRANS"])
def test_what_no_group_is_called(name: str) -> None:
    with pytest.raises(Refused) as refused:
        group_name(named(name))
    assert refused.value.code == pb.ILLEGAL_CONSUMER_GROUP
