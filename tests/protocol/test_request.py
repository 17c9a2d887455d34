"""Typed requests to commands and back, answers and refusals."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rocketpipe.errors import BodyError, HeaderError, RequestRejected
from rocketpipe.model.body import Body
from rocketpipe.protocol.codes import PeerVersion, RequestCode, ResponseCode
from rocketpipe.protocol.command import ONEWAY, RESPONSE, Command, HeaderKind, refusal
from rocketpipe.protocol.fields import I32, json_body, raw_body, reply_code, wire
from rocketpipe.protocol.request import (
    Request,
    from_command,
    read_reply,
    request,
    to_command,
    to_reply,
)


class Names(Body, frozen=True, kw_only=True):
    names: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindReply:
    code: int = reply_code(ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND)
    count: I32
    found: bytes = raw_body(default=b"")


@request(
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    short=(RequestCode.VIEW_MESSAGE_BY_ID,),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Find(Request[FindReply]):
    topic: str = wire(short="b")
    most: I32 = wire("maxNum", short="x", default=8)
    by_id: bool = False
    names: Names | None = json_body(default=None)

    @property
    def code(self) -> RequestCode:
        return RequestCode.VIEW_MESSAGE_BY_ID if self.by_id else RequestCode.QUERY_MESSAGE


@request(RequestCode.UNREGISTER_CLIENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(Request[None]):
    group: str


@request(RequestCode.HEART_BEAT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Say(Request[None]):
    names: Names = json_body()


def test_a_request_knows_its_codes_and_its_reply() -> None:
    assert Find.codes == (RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID)
    assert Find.reply is FindReply
    assert Leave.reply is type(None)
    assert Leave(group="g").code is RequestCode.UNREGISTER_CLIENT


def test_a_request_becomes_a_command_and_comes_back() -> None:
    asked = Find(topic="T", names=Names(names=["a", "b"]))
    command = to_command(asked, 7)
    assert command == Command(
        code=12,
        opaque=7,
        fields={"topic": "T", "maxNum": "8", "byId": "false"},
        body=b'{"names":["a","b"]}',
    )
    assert from_command(Find, command) == asked


def test_a_short_code_is_written_in_letters_and_either_is_read() -> None:
    asked = Find(topic="T", by_id=True)
    command = to_command(asked, 7)
    assert command.code == 33
    assert command.fields == {"b": "T", "x": "8", "byId": "true"}
    assert from_command(Find, command) == asked
    mixed = Command(code=33, opaque=1, fields={"topic": "T", "x": "8", "byId": "true"})
    assert from_command(Find, mixed) == asked


def test_the_spelling_that_belongs_to_the_code_counts() -> None:
    fields = {"topic": "long", "b": "short"}
    assert from_command(Find, Command(code=12, opaque=1, fields=fields)).topic == "long"
    assert from_command(Find, Command(code=33, opaque=1, fields=fields)).topic == "short"


def test_oneway_is_flagged() -> None:
    assert to_command(Leave(group="g"), 1, oneway=True).flag == ONEWAY
    assert to_command(Leave(group="g"), 1).flag == 0


def test_a_request_that_lacks_something_is_refused() -> None:
    with pytest.raises(HeaderError, match="<topic> is null"):
        from_command(Find, Command(code=12, opaque=1))
    with pytest.raises(BodyError, match="empty"):
        from_command(Say, Command(code=34, opaque=1))
    with pytest.raises(BodyError, match="lacks names"):
        from_command(Say, Command(code=34, opaque=1, body=b"{}"))
    with pytest.raises(BodyError, match="an array"):
        from_command(Say, Command(code=34, opaque=1, body=b'{"names":5}'))
    assert from_command(Find, Command(code=12, opaque=1, fields={"topic": "T"})).names is None


@pytest.mark.parametrize("kind", HeaderKind)
def test_an_answer_goes_out_in_the_form_the_peer_spoke(kind: HeaderKind) -> None:
    asked = Command(code=12, opaque=-3, header=kind)
    assert to_reply(asked, FindReply(count=2, found=b"xy")) == Command(
        code=0, opaque=-3, flag=RESPONSE, fields={"count": "2"}, body=b"xy", header=kind
    )
    assert to_reply(asked, None, version=PeerVersion.V4_9_8) == Command(
        code=0, opaque=-3, flag=RESPONSE, header=kind, version=409
    )


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND])
def test_each_accepted_code_is_an_answer(code: ResponseCode) -> None:
    asked = Find(topic="T")
    answer = FindReply(code=code, count=0)
    command = to_reply(to_command(asked, 1), answer)
    assert command.code == code
    assert read_reply(asked, command) == answer


def test_any_other_code_is_a_refusal() -> None:
    asked = Find(topic="T")
    no = refusal(to_command(asked, 1), ResponseCode.TOPIC_NOT_EXIST, "no topic")
    with pytest.raises(RequestRejected, match="no topic") as caught:
        read_reply(asked, no)
    assert caught.value.code == 17
    with pytest.raises(RequestRejected, match="without a remark"):
        read_reply(Leave(group="g"), Command(code=1, opaque=1, flag=RESPONSE))
    with pytest.raises(RequestRejected):
        read_reply(Leave(group="g"), Command(code=19, opaque=1, flag=RESPONSE))


def test_an_answer_that_says_nothing_but_success() -> None:
    assert read_reply(Leave(group="g"), Command(code=0, opaque=1, flag=RESPONSE)) is None


def test_an_answer_that_lacks_something_is_the_peers_mistake() -> None:
    with pytest.raises(HeaderError, match="<count> is null"):
        read_reply(Find(topic="T"), Command(code=0, opaque=1, flag=RESPONSE))
