"""A real Prometheus scrapes a real broker: what is shipped for it works, panel by panel."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker.generator import Unavailable
from benchmarks.broker.packages import Program, find_program
from tests.dockerfile import ROOT
from tests.ports import lasting_ports
from tests.waiting import PATIENCE_S, until

from rocketpipe import Admin, Decision, Message, Producer, PushConsumer, SimpleConsumer
from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.compat

RULES = ROOT / "deploy" / "prometheus" / "rocketpipe-rules.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "rocketpipe.json"
#: Nothing of this is there: no replicas, and no streaming query.
ELSEWHERE = ("rocketpipe_replication", "rocketpipe_query")


def program(name: str) -> Program:
    try:
        return find_program(name, ["prometheus"])
    except Unavailable as error:
        pytest.skip(f"no {name}: {error}")


def test_the_alerts_are_rules() -> None:
    tool = program("promtool")
    done = subprocess.run(
        [tool.path, "check", "rules", RULES], env=tool.environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def test_every_panel_and_every_alert_has_an_answer(tmp_path: Path) -> None:
    http, own = lasting_ports(2)
    tool = program("prometheus")
    settings = tmp_path / "prometheus.yml"
    settings.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "  - job_name: rocketpipe\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{http}']}}]\n"
        f"rule_files: ['{RULES}']\n"
    )
    with (
        serving(tmp_path, ["--http", f"127.0.0.1:{http}"]) as servers,
        running(tool, settings, tmp_path / "tsdb", own),
    ):
        async with traffic(servers.name_server):
            await every_answer(own)


async def every_answer(own: int) -> None:
    asked = list(expressions())
    silent: set[str] = set()

    def answered() -> bool:
        silent.clear()
        for expression in asked:
            answer = query(own, expression)
            is_elsewhere = any(name in expression for name in ELSEWHERE)
            if answer is None or (not answer and not is_elsewhere):
                silent.add(expression)
        return not silent

    try:
        await until(answered)
    except TimeoutError:
        pytest.fail(f"no answer to {sorted(silent)}")
    rules = get(own, "/api/v1/rules")["groups"][0]["rules"]
    assert len(rules) > 15
    assert not [rule["name"] for rule in rules if rule["health"] == "err"]


def expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield (
                target["expr"]
                .replace("$cluster", ".*")
                .replace("$broker", ".*")
                .replace("$__rate_interval", "1m")
            )


@asynccontextmanager
async def traffic(names: str) -> AsyncIterator[None]:
    """Some of everything that is measured, and clients that stay."""

    async def fail(_: object) -> None:
        raise ValueError("not today")

    async def undecided(_: object) -> Decision:
        return Decision.UNKNOWN

    async with Admin(names) as admin, Producer(names, group="tx", check=undecided) as producer:
        await admin.topics.create("orders", queues=2)
        await admin.groups.create("gives-up", max_attempts=1)
        for number in range(20):
            await producer.send("orders", b"%d" % number)
        await producer.send(Message("orders", b"later", delay_level=18))
        for end in ("commit", "rollback", "unknown"):
            async with producer.transaction("orders", b"tx") as tx:
                if end != "commit":
                    getattr(tx, end)()
        consumer = PushConsumer(names, group="gives-up", start="first")
        consumer.subscribe("orders", fail)
        async with consumer, SimpleConsumer(names, group="pops", start="first") as pops:
            await pops.subscribe("orders")
            while not await pops.receive(invisible_ms=600_000):
                pass
            async with Admin(names) as looking:
                for _ in range(PATIENCE_S):
                    letters = await looking.dead_letters.count("gives-up")
                    if letters:
                        break
                    await pops.receive(wait_ms=1000, invisible_ms=600_000)
                assert letters
            yield


class running:  # noqa: N801 - a block
    """Prometheus, for the length of the block."""

    def __init__(self, tool: Program, settings: Path, data: Path, port: int) -> None:
        self._command = [
            str(tool.path),
            f"--config.file={settings}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self._environment = dict(tool.environment)

    def __enter__(self) -> None:
        self._child = subprocess.Popen(
            self._command, env=self._environment, stderr=subprocess.DEVNULL
        )

    def __exit__(self, *_: object) -> None:
        self._child.terminate()
        self._child.wait()


def query(port: int, expression: str) -> list[Any] | None:
    """What an expression gives; None while Prometheus does not answer.

    Raises:
        AssertionError: If it is none.
    """
    try:
        found = get(port, f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{expression}: {error.read().decode()}") from error
    except OSError:
        return None
    result: list[Any] = found["result"]
    return result


def get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return json.loads(answer.read())["data"]
