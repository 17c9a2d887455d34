"""Kombu's messages as bytes and back; when a task is due."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.integrations.kombu.envelope import (
    NotKombus,
    due_ms,
    packed,
    read,
    task_id,
    unpacked,
    written,
)

MESSAGE: dict[str, Any] = {
    "body": "[]",
    "headers": {"id": "A1"},
    "properties": {"delivery_info": {"exchange": "", "routing_key": "celery"}},
}


def test_a_message_comes_back_as_it_was() -> None:
    assert unpacked(packed(MESSAGE)) == MESSAGE


def of(**parts: Any) -> bytes:
    return json.dumps({"properties": {"delivery_info": {"routing_key": "q"}}, **parts}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"properties": {}}',
        b"1",
        b"[" * 100_000,
        of(headers=["eta"]),
        of(headers="eta"),
        of(body=7),
        of(body={"a": 1}),
        of(headers={"__type__": "uuid", "__value__": 7}),
        json.dumps(
            {
                "body": "no base64: é",
                "properties": {"delivery_info": {"routing_key": "q"}, "body_encoding": "base64"},
            }
        ).encode(),
    ],
)
def test_what_kombu_has_not_sent_is_known(body: bytes) -> None:
    with pytest.raises(NotKombus):
        unpacked(body)


@given(st.one_of(st.text(), st.binary()))
def test_a_body_is_readable_where_it_is_text(body: str | bytes) -> None:
    text, encoding = written(body)
    found = read(text, encoding)
    assert (found.encode() if isinstance(found, str) else found) == (
        body.encode() if isinstance(body, str) else body
    )


def test_text_stays_text() -> None:
    assert written('{"a": 1}') == ('{"a": 1}', "utf-8")
    with pytest.raises(NotKombus):
        read("é", "base64")


@pytest.mark.parametrize(
    ("eta", "due"),
    [
        (None, None),
        ("soon", None),
        (7, None),
        ("2030-01-01T00:00:00", None),  # nobody knows where
        ("2030-01-01T00:00:00+00:00", datetime(2030, 1, 1, tzinfo=UTC).timestamp() * 1000),
        (
            "2030-01-01T02:00:00.000100+02:00",
            datetime(2030, 1, 1, tzinfo=UTC).timestamp() * 1000 + 1,
        ),
    ],
)
def test_a_task_is_due_at_its_moment_and_never_before(eta: Any, due: float | None) -> None:
    assert due_ms({"headers": {"eta": eta}}) == due


def test_a_task_can_be_looked_up_by_its_id_if_that_can_be_a_key() -> None:
    assert task_id(MESSAGE) == "A1"
    for odd in (None, 7, "", "a b", "a\nb", "é"):
        assert task_id({"headers": {"id": odd}}) is None
    assert task_id({}) is None
