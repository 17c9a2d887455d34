"""Apache's gRPC proxy: that it answers what we hold ours to, and ours before Apache's broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.compat.clients.grpc_targets import grpc_target
from tests.compat.support.grpc_answers import GOLDEN, answers_of, make_names
from tests.scenarios.test_grpc_answers import wanted

pytestmark = pytest.mark.compat

#: Its broker says nothing of a message that was recalled before.
OF_ITS_BROKER = {"recalls": {"again": "OK"}}


async def test_apaches_answers_are_those_that_are_kept(tmp_path: Path) -> None:
    with grpc_target("apaches", tmp_path) as target:
        await make_names(target.name_server)
        found = await answers_of(target.address)
    kept = json.loads(GOLDEN.read_text())
    assert {name: (found[name], kept[name]) for name in kept if found[name] != kept[name]} == {}


async def test_our_proxy_before_its_broker_answers_as_ours_does(tmp_path: Path) -> None:
    with grpc_target("our proxy at apaches", tmp_path) as target:
        await make_names(target.name_server)
        found = await answers_of(target.address)
    due = wanted()
    for name, other in OF_ITS_BROKER.items():
        due[name] = due[name] | other
    assert {name: (found[name], due[name]) for name in due if found[name] != due[name]} == {}
