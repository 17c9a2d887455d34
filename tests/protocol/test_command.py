"""What the two flag bits say, and how a request is refused."""

from __future__ import annotations

import dataclasses

import pytest

from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import (
    MAX_REMARK,
    ONEWAY,
    RESPONSE,
    Command,
    HeaderKind,
    refusal,
)


@pytest.mark.parametrize(
    ("flag", "response", "oneway"),
    [(0, False, False), (RESPONSE, True, False), (ONEWAY, False, True), (3, True, True)],
)
def test_flag_bits(flag: int, response: bool, oneway: bool) -> None:
    command = Command(code=1, opaque=1, flag=flag)
    assert command.is_response is response
    assert command.is_oneway is oneway


@pytest.mark.parametrize("kind", HeaderKind)
def test_a_refusal_answers_in_the_form_the_peer_spoke(kind: HeaderKind) -> None:
    asked = Command(code=10, opaque=-7, fields={"a": "b"}, body=b"x", header=kind)
    answer = refusal(asked, ResponseCode.TOPIC_NOT_EXIST, "no such topic")
    assert answer.is_response
    assert (answer.code, answer.opaque, answer.header) == (17, -7, kind)
    assert answer.remark == "no such topic"
    assert answer.body == b""
    assert answer.fields == {}


def test_a_refusal_quotes_only_so_much() -> None:
    answer = refusal(Command(code=10, opaque=1), 1, "no topic " + "x" * 100_000)
    assert answer.remark is not None
    assert answer.remark.startswith("no topic xxx")
    assert len(answer.remark) == MAX_REMARK + 1


def test_a_command_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Command(code=1, opaque=1).code = 2  # type: ignore[misc]
