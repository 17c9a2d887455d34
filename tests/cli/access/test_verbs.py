"""How changes of users are told, when all servers made them and when only some did."""

from __future__ import annotations

import argparse
import io
import json
from typing import Any

import pytest

from rocketpipe.cli.access.verbs import SaidWrongly, told
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.access.servers import Change
from rocketpipe.client.admin.fleet import PartlyDone
from rocketpipe.errors import RocketPipeError


async def printed(change: Change | RocketPipeError, form: str, *, dry_run: bool = False) -> str:
    async def made() -> Change:
        if isinstance(change, RocketPipeError):
            raise change
        return change

    out = io.StringIO()
    facts: dict[str, Any] = {"user": "alice", "secret": "made-for-alice"}
    try:
        await told(Printer(form, out), facts, made(), argparse.Namespace(dry_run=dry_run))
    except PartlyDone:
        assert isinstance(change, PartlyDone)
    return out.getvalue()


async def test_where_it_was_done_was_so_already_and_cannot_be() -> None:
    change = Change(done=("a", "b"), unchanged=("c",), without=("n",))
    assert json.loads(await printed(change, "json", dry_run=True)) == {
        "user": "alice",
        "secret": "made-for-alice",
        "dry_run": True,
        "servers": ["a", "b"],
        "unchanged": ["c"],
        "without_access_control": ["n"],
    }
    assert "SERVERS                 a, b\n" in await printed(change, "table")


async def test_a_secret_that_some_servers_have_is_shown_though_others_failed() -> None:
    failed = PartlyDone(["a"], {"b": RocketPipeError("it is down")})
    found = json.loads(await printed(failed, "json"))
    assert found["secret"] == "made-for-alice"
    assert (found["servers"], found["failed"]) == (["a"], {"b": "it is down"})


def test_what_no_flag_is_to_blame_for_is_said_without_one() -> None:
    with pytest.raises(SaidWrongly, match=r"^just so$"):
        raise SaidWrongly("just so")
