"""Our doctor and our ``mqadmin`` verbs, with Apache's servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.compat.support.apache import BROKER, CLUSTER, Apache

from rocketpipe.cli.main import main
from rocketpipe.client.consumer.push import PushConsumer
from rocketpipe.client.session import Session

pytestmark = pytest.mark.compat


async def test_operators_commands_work_with_apaches_servers(
    apache: Apache, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with apache.cluster(tmp_path) as servers:

        async def run(*words: str, code: int = 0) -> str:
            # A command has a loop of its own.
            given = [*words, "-n", servers.name_servers]
            assert await asyncio.to_thread(main, given) == code, capsys.readouterr()
            return capsys.readouterr().out

        await run("mqadmin", "updateTopic", "-c", CLUSTER, "-t", "orders", "-r", "2", "-w", "2")
        place = ("-b", BROKER, "-i", "1")
        await run("mqadmin", "sendMessage", "-t", "orders", "-p", "order", "-k", "A1", *place)
        await run("mqadmin", "updateSubGroup", "-b", servers.broker, "-g", "shop", "-r", "3")
        await run("mqadmin", "resetOffsetByTime", "-g", "shop", "-t", "orders", "-s", "0")
        progress = await run("mqadmin", "consumerProgress", "-g", "shop", "-t", "orders")
        assert "Consume Diff Total: 1" in progress
        status = await run("mqadmin", "topicStatus", "-t", "orders")
        assert [line.split()[:4] for line in status.splitlines()[1:]] == [
            [BROKER, "0", "0", "0"],
            [BROKER, "1", "0", "1"],
        ]
        assert "#ACTIVATED" in await run("mqadmin", "clusterList")
        assert "BODY: order" in await run("mqadmin", "printMsg", "-t", "orders")
        await _doctor(run, servers.name_servers)


async def _doctor(run: Callable[..., Any], name_servers: str) -> None:
    every = PushConsumer(name_servers, group="mixed")
    paid = PushConsumer(Session(name_servers), group="mixed")

    @every.on("orders")
    @paid.on("orders", tags="paid")
    async def handle(message: object) -> None:
        """Takes what comes."""

    found = {each["what"]: each for each in json.loads(await run("doctor", "-o", "json"))}
    levels = {what: each["level"] for what, each in found.items()}
    assert found["group shop"]["detail"] == "1 message behind, 0 members"
    for what in ("clock", "queues", "permission"):
        assert levels[f"{what} of {BROKER}"] == "ok", found
    assert found[f"disk of {BROKER}"]["detail"].endswith("% used")
    assert levels["versions"] == levels["permissions of topics"] == "ok"
    assert levels[f"delayed messages at {BROKER}"] == levels["open transactions"] == "ok"
    async with every, paid:
        found = {
            each["what"]: each for each in json.loads(await run("doctor", "-o", "json", code=1))
        }
    assert found["subscriptions of mixed"]["level"] == "problem"
