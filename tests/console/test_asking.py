"""Parameters and bodies: checked, bounded, and never taken for something else."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest
from starlette.requests import Request

from rocketpipe.console.answers import Problem
from rocketpipe.console.asking import MAX_BODY_BYTES, MAX_UNPACKED, Ask, pack, paged, unpack


def ask(query: str = "", body: bytes = b"", parts: Mapping[str, str] | None = None) -> Ask:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [],
        "query_string": query.encode(),
        "path_params": dict(parts or {}),
    }
    return Ask(Request(scope, receive), cast("Any", None), cast("Any", None))


def test_a_parameter_is_text_or_not_there() -> None:
    assert ask("a=b&c=").text("a") == "b"
    assert ask("a=b&c=").text("c") is None
    assert ask("a=b").needed("a") == "b"
    assert ask(parts={"topic": "%RETRY%x"}).part("topic") == "%RETRY%x"
    with pytest.raises(Problem, match="missing"):
        ask().needed("a")
    with pytest.raises(Problem, match="characters"):
        ask(f"a={'x' * 7001}").text("a")


@pytest.mark.parametrize("text", ["x", "1.5", "--1", "1e9", "９", "9" * 20, "-1", "201"])
def test_a_number_is_whole_and_within_bounds(text: str) -> None:
    with pytest.raises(Problem):
        ask(f"limit={text}").limit()


def test_a_choice_is_one_of_the_words() -> None:
    assert ask().choice("sort", ("name", "lag")) == "name"
    assert ask("sort=lag").choice("sort", ("name", "lag")) == "lag"
    with pytest.raises(Problem, match="unknown"):
        ask("sort=x").choice("sort", ("name", "lag"))


class Body(msgspec.Struct, forbid_unknown_fields=True):
    name: str


async def test_a_body_is_json_of_its_kind_and_not_too_long() -> None:
    assert (await ask(body=b'{"name":"x"}').body(Body)).name == "x"
    for wrong in (b"", b"[]", b'{"name":1}', b'{"name":"x","more":1}', b'{"name":"x"'):
        with pytest.raises((msgspec.ValidationError, msgspec.DecodeError)):
            await ask(body=wrong).body(Body)
    with pytest.raises(Problem, match="too long"):
        await ask(body=b"x" * (MAX_BODY_BYTES + 1)).body(Body)


def test_names_are_given_in_pages() -> None:
    names = ["a", "b", "c"]
    assert paged(ask(), names, 2) == (["a", "b"], "b")
    assert paged(ask("after=b"), names, 2) == (["c"], None)
    assert paged(ask("after=z"), names, 2) == ([], None)


def test_a_place_to_go_on_from_is_what_was_packed_or_refused() -> None:
    left = [("broker-a", queue, 0, 10**12 + queue) for queue in range(400)]
    packed = pack(left)
    assert unpack(packed, list[tuple[str, int, int, int]]) == left
    assert len(packed) < 7000
    bomb = base64.urlsafe_b64encode(zlib.compress(bytes(MAX_UNPACKED * 4))).decode()
    for wrong in ("", "x", "\x00", packed[:-5], pack({"a": 1}), bomb, "é"):
        with pytest.raises(Problem, match="no place"):
            unpack(wrong, list[tuple[str, int, int, int]])
