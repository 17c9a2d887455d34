from __future__ import annotations

import pytest

from rocketpipe.errors import BodyError
from rocketpipe.model.topic import DataVersion
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_reply
from rocketpipe.protocol.requests.membership import (
    BrokerHeartbeat,
    BrokerMembers,
    GetBrokerMemberGroup,
    MemberGroup,
    MemberGroupReply,
    QueryDataVersion,
)

FIELDS = {"brokerName": "b", "brokerAddr": "h:1", "clusterName": "c", "brokerId": "0"}


def test_a_version_is_asked_for_with_one() -> None:
    command = Command(code=322, opaque=1, fields=FIELDS, body=b'{"counter":1,"timestamp":2}')
    asked = from_command(QueryDataVersion, command)
    assert asked.version == DataVersion(counter=1, timestamp=2)
    with pytest.raises(BodyError):
        from_command(QueryDataVersion, Command(code=322, opaque=1, fields=FIELDS))


def test_an_answer_for_a_broker_that_is_not_known_has_no_body() -> None:
    asked = from_command(QueryDataVersion, Command(code=322, opaque=1, fields=FIELDS, body=b"{}"))
    answer = Command(code=0, opaque=1, flag=RESPONSE, fields={"changed": "true"})
    reply = read_reply(asked, answer)
    assert (reply.changed, reply.version) == (True, None)


def test_a_heartbeat_needs_no_more_than_who_it_is_from() -> None:
    fields = {key: text for key, text in FIELDS.items() if key != "brokerId"}
    asked = from_command(BrokerHeartbeat, Command(code=904, opaque=1, fields=fields))
    assert asked == BrokerHeartbeat(cluster_name="c", broker_addr="h:1", broker_name="b")


@pytest.mark.parametrize("addresses", [b'{0:"h:1"}', b'{"0":"h:1"}'], ids=["dialect", "strict"])
def test_members_are_read_in_both_dialects(addresses: bytes) -> None:
    body = b'{"brokerMemberGroup":{"brokerAddrs":%b,"brokerName":"b","cluster":"c"}}' % addresses
    ask = GetBrokerMemberGroup(cluster_name="c", broker_name="b")
    reply = read_reply(ask, Command(code=0, opaque=1, flag=RESPONSE, body=body))
    assert reply.group.members.addresses == {0: "h:1"}


def test_members_are_written_with_quoted_keys() -> None:
    members = BrokerMembers(cluster="c", broker_name="b", addresses={0: "h:1"})
    answer = MemberGroupReply(group=MemberGroup(members=members))
    assert to_reply(Command(code=901, opaque=1), answer).body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{"0":"h:1"},"brokerName":"b","cluster":"c"}}'
    )
