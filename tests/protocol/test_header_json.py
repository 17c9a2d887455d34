"""JSON headers: what Java reads, what we refuse, and bombs."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.errors import HeaderError, LocalProtocolError
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.header_json import MAX_FIELDS, decode, encode

DIALECT = json.loads((Path(__file__).parent / "golden" / "dialect.json").read_text())

# Java fills in what is missing (code 0, an opaque of its own), takes true for 1 and names in any
# letter case. No peer sends these; answering them would mean answering a stranger.
REFUSED_HERE = {
    '{"opaque":1}',
    '{"code":true,"opaque":1}',
    '{"Code":10,"OPAQUE":1}',
}


@pytest.mark.parametrize("case", DIALECT["field_values"], ids=lambda case: case["value"])
def test_a_field_value_becomes_the_text_java_makes_of_it(case: dict[str, object]) -> None:
    assert case["accepted"]
    command = decode(f'{{"code":1,"extFields":{{"k":{case["value"]}}},"opaque":1}}'.encode())
    assert command.fields.get("k") == case["reads"]


@pytest.mark.parametrize("case", DIALECT["headers"], ids=lambda case: case["text"])
def test_an_odd_header_reads_as_at_java(case: dict[str, object]) -> None:
    header = str(case["text"]).encode()
    if not case["accepted"] or case["text"] in REFUSED_HERE:
        with pytest.raises(HeaderError):
            decode(header)
        return
    command = decode(header)
    assert command.code == case["code"]
    assert command.opaque == case["opaque"]
    assert command.flag == case["flag"]
    assert command.version == case["version"]
    assert command.remark == case["remark"]
    assert command.fields == (case["fields"] or {})
    if '"language"' in str(case["text"]):
        assert (command.language and command.language.name) == case["language"]


@pytest.mark.parametrize(
    "header",
    [
        # ali-ons and the C++ clients send numbers and truth values as they are
        b'{"code":34,"extFields":{"order":false,"queueId":0,"unitMode":"0"},"flag":0,'
        b'"language":"CPP","opaque":3,"version":60}',
        b'{"version":60,"opaque":3,"language":"CPP","flag":0,"extFields":{"queueId":0,'
        b'"order":false,"unitMode":"0","gone":null},"code":34,"remark":null,"other":[{"x":{}}]}',
    ],
)
def test_numbers_and_truth_values_come_as_text(header: bytes) -> None:
    command = decode(header, b"body")
    assert command == Command(
        code=34,
        opaque=3,
        fields={"order": "false", "queueId": "0", "unitMode": "0"},
        language=Language.CPP,
        version=60,
        body=b"body",
    )


def test_every_value_is_written_as_a_string() -> None:
    header = encode(Command(code=0, opaque=1, flag=1, fields={"queueId": "0", "ok": "true"}))
    assert json.loads(header)["extFields"] == {"queueId": "0", "ok": "true"}


def test_keys_stand_in_the_order_java_writes_them() -> None:
    header = encode(
        Command(code=17, opaque=-2, flag=1, fields={"z": "1", "a": "2"}, remark='no "such" topic')
    )
    assert header == (
        b'{"code":17,"extFields":{"z":"1","a":"2"},"flag":1,"language":"PYTHON","opaque":-2,'
        b'"remark":"no \\"such\\" topic","serializeTypeCurrentRPC":"JSON","version":475}'
    )


def test_the_last_of_equal_fields_counts() -> None:
    assert decode(b'{"code":1,"opaque":2,"code":3,"extFields":{"a":"1","a":"2"}}').fields == {
        "a": "2"
    }
    # by the dialect's reader too, where a null takes the field away
    assert decode(b'{"code":1,"opaque":2,"extFields":{"a":1,"a":2}}').fields == {"a": "2"}
    assert decode(b'{"code":1,"opaque":2,"extFields":{"a":1,"a":null}}').fields == {}


def test_bytes_that_are_no_text_are_replaced_as_java_does() -> None:
    assert decode(b'{"code":1,"opaque":2,"extFields":{"a":"\xff\xfe!"}}').fields == {
        "a": "\ufffd\ufffd!"
    }


@pytest.mark.parametrize(
    ("header", "at", "reason"),
    [
        (b"", 0, "ends too early"),
        (b"[]", 0, "no object"),
        (b'"code"', 0, "no object"),
        (b'{"code":1', 9, "a comma"),
        (b'{"code":1,"opaque":2}}', 21, "goes on"),
        (b'{"code":1,"opaque":2147483648}', 19, "32-bit"),
        (b'{"code":1,"opaque":-2147483649}', 19, "32-bit"),
        (b'{"code":1,"opaque":"99999999999999999999"}', 19, "32-bit"),
        (b'{"code":1.5,"opaque":2}', 8, "32-bit"),
        (b'{"code":"ten","opaque":2}', 8, "32-bit"),
        (b'{"code":{},"opaque":2}', 8, "32-bit"),
        (b'{"code":1}', 0, "without opaque"),
        (b'{"code":null,"opaque":2}', 8, "without code"),
        ('{"ключ":"значение",'.encode() + b'"code":x}', 38, "a value"),
        (b'{"code":1,"opaque":2,"remark":"\\ud800"}', 30, "surrogate"),
        (b'{"code":1,"opaque":2,"extFields":{"a":NaN}}', 38, "a value"),
        (b'{"code":1,"opaque":2,"extFields":5}', 33, "no object"),
    ],
)
def test_a_header_that_cannot_be_read_says_where(header: bytes, at: int, reason: str) -> None:
    with pytest.raises(HeaderError, match=reason) as caught:
        decode(header)
    assert caught.value.at == at


BOMBS = {
    "100,000 open brackets": b'{"code":1,"opaque":2,"x":' + b"[" * 100_000,
    "100,000 brackets": b'{"code":1,"opaque":2,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a deep field value": b'{"code":1,"opaque":2,"extFields":{"a":' + b'{"b":' * 50_000,
    "a number of 4,301 digits": b'{"code":1,"opaque":2,"extFields":{"a":' + b"9" * 4301 + b"}}",
    "a code of 4,301 digits": b'{"code":' + b"9" * 4301 + b',"opaque":2}',
    "an endless exponent": b'{"code":1,"opaque":2,"extFields":{"a":1e' + b"9" * 50 + b"}}",
    "1,000,000 fields": b'{"code":1,"opaque":2,"extFields":{'
    + b",".join(b'"%d":"1"' % n for n in range(1_000_000))
    + b"}}",
    "1,000,000 equal fields": b'{"code":1,"opaque":2,"extFields":{'
    + b'"a":"1",' * 1_000_000
    + b'"a":"1"}}',
    "5,000 fields": b'{"code":1,"opaque":2,"extFields":{'
    + b",".join(b'"%d":"1"' % n for n in range(5000))
    + b"}}",
    "9,000 numbers": b'{"code":1,"opaque":2,"extFields":{'
    + b",".join(b'"%d":1' % n for n in range(9000))
    + b"}}",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_with_little_work_and_memory(
    bomb: bytes, count_calls: Callable[[Callable[[], Any]], int]
) -> None:
    def refuse() -> None:
        with pytest.raises(HeaderError):
            decode(bomb)

    assert count_calls(refuse) < 100_000
    tracemalloc.start()
    try:
        refuse()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 32 * 1024 * 1024


def test_as_many_fields_as_allowed_are_read() -> None:
    fields = {str(number): "1" for number in range(MAX_FIELDS)}
    assert decode(encode(Command(code=1, opaque=1, fields=fields))).fields == fields


@pytest.mark.parametrize(
    "command",
    [
        Command(code=1 << 31, opaque=1),
        Command(code=1, opaque=-(1 << 31) - 1),
        Command(code=1, opaque=1, fields={"a": 5}),  # type: ignore[dict-item]
        Command(code=1, opaque=1, fields={"a": "\ud800"}),
        Command(code=1, opaque=1, remark="\udfff"),
    ],
)
def test_what_no_peer_could_read_is_not_written(command: Command) -> None:
    with pytest.raises(LocalProtocolError):
        encode(command)
