"""Every request at once: against RocketMQ's own header and body classes, and against itself."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import types
import typing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpipe.errors import HeaderError
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.fields import Bits, camel, codec_for, place_of
from rocketpipe.protocol.frame import bounds_at, decode_frame, encode_frame
from rocketpipe.protocol.request import from_command, read_reply, to_command, to_reply
from rocketpipe.protocol.requests.catalog import typed_requests

GOLDEN = Path(__file__).parent / "golden"
HEADERS = json.loads((GOLDEN / "headers.json").read_text())["headers"]
BODIES = json.loads((GOLDEN / "bodies.json").read_text())["bodies"]
KINDS = {code: kind for kind in typed_requests() for code in kind.codes}
REPLIES = {kind.reply for kind in KINDS.values()} - {type(None)}
#: Of each of hundreds of kinds; `make soak` has time for more.
EXAMPLES = 100 if "ROCKETPIPE_ALL_FAULTS" in os.environ else 15

# Where our word is not RocketMQ's in snake case; letters are spelled out in test_sending.
OUR_WORDS = {
    "bname": "broker_name",
    "clientID": "client_id",
    "proxyFrowardClientId": "proxy_forward_client_id",
    "_UNIQUE_KEY_QUERY": "unique_key",
    "MSG_REGION": "region",
    "TRACE_ON": "trace_on",
    "lo": "logical",
}

# It has two names of a broker: the one for routing, as all have, and the message's.
OF_TWO_NAMES = {("ConsumeDirectly", "brokerName"): "of_broker"}

# RocketMQ marks these as required; we read on without them, as some peers leave them out.
NOT_INSISTED_ON = {
    "PullMessageReply": {"suggestWhichBrokerId"},
    "UpdateAndCreateTopic": {"order", "topicFilterType"},
    "ResetConsumerClientOffset": {"isForce"},
    "GetAllTopicConfig": {"topicSeq"},
    "AllTopicsReply": {"totalTopicNum"},
    "GetAllGroupConfig": {"groupSeq"},
    "AllGroupsReply": {"totalGroupNum"},
}

# RocketMQ has no header class for these: it sets the fields one by one, or sends none.
WITHOUT_HEADER_CLASS = {
    "HeartbeatReply": {"IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE"},
    "SetLogReadMode": {"READ_AHEAD_MODE"},
    # Of RocketMQ's source, not of its running classes.
    **{kind: {"username"} for kind in ("CreateUser", "UpdateUser", "DeleteUser", "GetUser")},
    **{kind: {"subject"} for kind in ("CreateAcl", "UpdateAcl", "GetAcl")},
    "ListUsers": {"filter"},
    "DeleteAcl": {"subject", "policyType", "resource"},
    "ListAcls": {"subjectFilter", "resourceFilter"},
    "DeletePlainAccount": {"accessKey"},
    "UpdateGlobalWhiteAddresses": {"globalWhiteAddrs", "aclFileFullPath"},
    "UpdatePlainAccount": {
        *("accessKey", "secretKey", "whiteRemoteAddress", "defaultTopicPerm"),
        *("defaultGroupPerm", "topicPerms", "groupPerms", "admin"),
    },
    "PlainAclVersion": {
        *("version", "allAclFileVersion", "brokerName", "brokerAddr", "clusterName"),
    },
}
# Fields that RocketMQ does not have: its brokers ignore them.
OURS_ALONE = {"bulk", "live_keys"}
BROKER_NAME_ONLY = {RequestCode.BATCH_ACK_MESSAGE}
# Requests that RocketMQ does not have.
OUR_CODES = {
    RequestCode.STAGE_MESSAGES,
    RequestCode.COMMIT_STAGES,
    RequestCode.PREPARE_STAGES,
    RequestCode.ASK_STAGES,
    RequestCode.SETTLE_STAGES,
    RequestCode.LIST_STAGED,
    RequestCode.LEAD_ANYWAY,
    RequestCode.FORGET_REPLICA,
}


def header_id(header: dict[str, Any]) -> str:
    return f"{header['code']}-{header['class']}"


def body_id(body: dict[str, Any]) -> str:
    return f"{body['code']}-{body['body']}"


def kind_of(golden: dict[str, Any]) -> type:
    kind = KINDS[golden["code"]]
    return kind if golden["side"] == "request" else kind.reply


def is_short(header: dict[str, Any]) -> bool:
    return header["side"] == "request" and header["code"] in KINDS[header["code"]].short_codes


@pytest.mark.parametrize("header", HEADERS, ids=header_id)
def test_what_rocketmq_writes_is_read_and_written_back_field_by_field(
    header: dict[str, Any],
) -> None:
    codec = codec_for(kind_of(header))
    values = codec.decode(header["fields"])
    filled = types.SimpleNamespace(**dict.fromkeys(OURS_ALONE), **values)
    again = codec.encode(filled, short=is_short(header))
    assert again == header["fields"]
    assert {row.attribute for row in codec.rows} - OURS_ALONE == set(values)


@pytest.mark.parametrize("header", HEADERS, ids=header_id)
def test_every_field_is_as_wide_as_rocketmqs(header: dict[str, Any]) -> None:
    kind = kind_of(header)
    hints = typing.get_type_hints(kind, include_extras=True)
    ours = {
        (row.short if is_short(header) else row.name): java_type(hints[row.attribute])
        for row in codec_for(kind).rows
        if row.attribute not in OURS_ALONE
    }
    theirs = dict(header["types"])
    if "topicFilterType" in theirs:
        theirs["topicFilterType"] = "enum"  # a Java string that holds an enum's name
    assert ours == theirs


@pytest.mark.parametrize("header", HEADERS, ids=header_id)
def test_what_rocketmq_requires_is_required(header: dict[str, Any]) -> None:
    kind = kind_of(header)
    codec = codec_for(kind)
    for name in set(header["required"]) - NOT_INSISTED_ON.get(kind.__name__, set()):
        without = {key: text for key, text in header["fields"].items() if key != name}
        with pytest.raises(HeaderError, match="is null"):
            codec.decode(without)
    for name in set(header["fields"]) - set(header["required"]):
        codec.decode({key: text for key, text in header["fields"].items() if key != name})


@pytest.mark.parametrize("header", HEADERS, ids=header_id)
def test_a_field_has_rocketmqs_word_or_one_that_is_listed_here(header: dict[str, Any]) -> None:
    kind = kind_of(header)
    for row in codec_for(kind).rows:
        ours = OF_TWO_NAMES.get((kind.__name__, row.name)) or OUR_WORDS.get(row.name)
        assert row.attribute == (ours or row.attribute)
        assert ours or row.name == camel(row.attribute)


@pytest.mark.parametrize("code", sorted(KINDS.keys() - OUR_CODES), ids=lambda code: code.name)
def test_every_header_was_held_against_rocketmqs(code: RequestCode) -> None:
    kind = KINDS[code]
    seen = {(header["code"], header["side"]) for header in HEADERS}
    if codec_for(kind).rows and code not in BROKER_NAME_ONLY:
        names = {row.name for row in codec_for(kind).rows}
        assert (code, "request") in seen or names == WITHOUT_HEADER_CLASS[kind.__name__]
    if code in BROKER_NAME_ONLY:
        assert [row.name for row in codec_for(kind).rows] == ["bname"]
    if kind.reply is not type(None) and codec_for(kind.reply).rows:
        names = {row.name for row in codec_for(kind.reply).rows}
        assert (code, "response") in seen or names == WITHOUT_HEADER_CLASS[kind.reply.__name__]


def json_hint(kind: type) -> Any:
    fields = [field for field in dataclasses.fields(kind) if place_of(field) == "json"]
    if not fields:
        return None
    hint = typing.get_type_hints(kind)[fields[0].name]
    arms = [arm for arm in typing.get_args(hint) if arm is not types.NoneType]
    return arms[0] if arms else hint


JSON_BODIES = [body for body in BODIES if json_hint(kind_of(body)) is not None]


def test_every_json_body_was_held_against_rocketmqs() -> None:
    seen = {kind_of(body) for body in JSON_BODIES}
    # Those of users are held against RocketMQ's source, in test_users.
    codes = OUR_CODES | {code for code in KINDS if 3000 < code < 3100}
    ours = {kind for code in codes for kind in (KINDS[code], KINDS[code].reply)}
    with_json = {kind for kind in [*KINDS.values(), *REPLIES] if json_hint(kind) is not None}
    assert seen == with_json - ours


@pytest.mark.parametrize("body", JSON_BODIES, ids=body_id)
def test_a_body_that_rocketmq_wrote_is_written_back_byte_for_byte(body: dict[str, Any]) -> None:
    text = body["text"].encode()
    value = fastjson.read(text, json_hint(kind_of(body)))
    assert fastjson.write(value, strict="standard JSON" in body["body"]) == text


@pytest.mark.parametrize("body", JSON_BODIES, ids=body_id)
def test_no_key_of_a_body_goes_unread(body: dict[str, Any]) -> None:
    kind = json_hint(kind_of(body))
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    if "standard JSON" in body["body"] or "offsetTable" not in body["text"]:
        keys = set(fastjson.read(body["text"], dict[str, Any]))
        assert keys <= known


@pytest.mark.parametrize("kind", sorted(set(KINDS.values()), key=lambda kind: kind.__name__))
def test_a_request_says_what_it_asks(kind: type) -> None:
    first = (kind.__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    # dataclass writes a signature where there is no docstring
    assert not first.startswith(kind.__name__)
    if kind.reply is not type(None):
        assert dataclasses.is_dataclass(kind.reply)
        assert not (kind.reply.__doc__ or "").startswith(kind.reply.__name__)


# Round trips with made-up values.


def java_type(hint: Any) -> str:
    hint = without_none(hint)
    if typing.get_origin(hint) is Annotated:
        assert Bits(32) in hint.__metadata__
        return "int"
    hint = getattr(hint, "__supertype__", hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "enum"
    return {int: "long", bool: "boolean", str: "string"}[hint]


def without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (hint,) = (arm for arm in typing.get_args(hint) if arm is not types.NoneType)
    return hint


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type, as wide as it allows."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return st.none() | values_of(without_none(hint))
    if origin is Annotated:
        return annotated_values(arguments[0], hint.__metadata__[0])
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is frozenset:
        return st.frozensets(values_of(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    hint = getattr(hint, "__supertype__", hint)
    if issubclass(hint, msgspec.Struct):
        return st.builds(
            hint,
            **{field.name: values_of(field.type) for field in msgspec.structs.fields(hint)},
        )
    if issubclass(hint, enum.Enum):
        return st.sampled_from(list(hint))
    return {
        int: st.integers(-(1 << 63), (1 << 63) - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        str: st.text(max_size=20),
        bytes: st.binary(max_size=20),
    }[hint]


def annotated_values(kind: type, rule: Any) -> st.SearchStrategy[Any]:
    if kind is bytes:
        return st.binary(max_size=min(rule.max_length, 20))
    if isinstance(rule, Bits):
        return st.integers(-(1 << rule.width - 1), (1 << rule.width - 1) - 1)
    return st.integers(rule.ge, rule.le)


def instances_of(kind: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    strategies = {
        field.name: (
            st.sampled_from(sorted(field.metadata["accepted"]))
            if place_of(field) == "code"
            else values_of(hints[field.name])
        )
        for field in dataclasses.fields(kind)
    }
    return st.builds(kind, **strategies)


def through_a_frame(command: Command) -> Command:
    data = encode_frame(command)
    bounds = bounds_at(data, 0, len(data))
    assert bounds is not None
    return decode_frame(data, bounds)


@pytest.mark.parametrize("kind", sorted(set(KINDS.values()), key=lambda kind: kind.__name__))
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_request_survives_the_wire(kind: type, data: st.DataObject) -> None:
    asked = data.draw(instances_of(kind))
    command = through_a_frame(to_command(asked, 7))
    assert command.code in kind.codes
    assert from_command(kind, command) == asked


@pytest.mark.parametrize("kind", sorted(REPLIES, key=lambda kind: kind.__name__))
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_reply_survives_the_wire(kind: type, data: st.DataObject) -> None:
    answer = data.draw(instances_of(kind))
    asked = Command(code=1, opaque=7)
    command = through_a_frame(to_reply(asked, answer))
    assert command.is_response
    assert read_reply(types.SimpleNamespace(reply=kind), command) == answer
