"""A message starts a run of a DAG in a real Airflow, once, and a killed triggerer loses none."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compat.support.airflow import Airflow, airflow_python, install_ours

from rocketpipe import Admin, Producer
from rocketpipe.testing import serving

pytestmark = pytest.mark.compat

#: Airflow takes its time: to read a DAG, to start a trigger, to schedule a run.
PATIENCE_S = 400
DAG = """
import json, os
from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import Asset, AssetWatcher, dag, task

trigger = MessageQueueTrigger(
    scheme="rocketpipe",
    name_servers=os.environ["NAME_SERVERS"],
    topic="airflow-orders",
    group="airflow-watchers",
    invisible_ms=10_000,
)
orders = Asset("orders", watchers=[AssetWatcher(name="orders", trigger=trigger)])


@dag(schedule=[orders], catchup=False)
def bill():
    @task(retries=9, retry_delay=1)
    def note(triggering_asset_events=None, run_id=None):
        with open(os.environ["NOTES"], "a") as notes:
            for event in triggering_asset_events[orders]:
                notes.write(json.dumps({"run": run_id, **event.extra["payload"]}) + "\\n")

    note()


bill()
"""


async def until(airflow: Airflow, holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        airflow.check()
        assert time.monotonic() < deadline, airflow.log("scheduler")[-3000:]
        await asyncio.sleep(0.5)


@pytest.mark.timeout(1500)
async def test_a_message_starts_a_run_whoever_is_killed_meanwhile(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    def noted() -> Counter[str]:
        """How many runs had each message."""
        lines = notes.read_text().splitlines() if notes.exists() else []
        found = map(json.loads, lines)
        return Counter(body for body, _ in {(each["body"], each["run"]) for each in found})

    with serving(tmp_path) as servers:
        facts = {"NAME_SERVERS": servers.name_server, "NOTES": str(notes)}
        airflow = Airflow(tmp_path / "airflow", {"bill.py": DAG}, facts)
        try:
            airflow.command("db", "migrate")
            assert "rocketpipe" in airflow.command("providers", "list")
            airflow.start("api-server")  # which tasks ask, and do not wait for
            await until(airflow, lambda: "startup complete" in airflow.log("api-server"))
            for part in ("scheduler", "dag-processor", "triggerer"):
                airflow.start(part)
            async with Producer(servers.name_server) as producer:
                await producer.send("airflow-orders", b"first", tags="tea", keys=["A1"])
                await until(airflow, lambda: noted()["first"])
                facts = json.loads(notes.read_text().splitlines()[0])
                assert (facts["keys"], facts["tags"], facts["attempt"]) == (["A1"], "tea", 1)
                # Between two: received by the triggerer, and not yet in Airflow's database.
                fired = airflow.log("triggerer").count("Trigger fired event")
                await producer.send("airflow-orders", b"second")
                while airflow.log("triggerer").count("Trigger fired event") == fired:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                airflow.kill("triggerer")
                airflow.start("triggerer")
                await until(airflow, lambda: noted()["second"])
                await producer.send("airflow-orders", b"third")
                await until(airflow, lambda: noted()["third"])
        finally:
            airflow.close()
    assert noted()["first"] == noted()["third"] == 1
    assert noted()["second"] in (1, 2)


WATCHER = Path(__file__).parent / "support" / "airflow_watcher.py"


class Watcher:
    """A trigger that is asked as triggerers before Airflow 3.3 ask."""

    def __init__(self, python: Path, ours: Path, name_server: str, settle_ms: int) -> None:
        self._process = subprocess.Popen(
            [python, "-P", WATCHER, name_server, "old-orders", str(settle_ms)],
            env={**os.environ, "PYTHONPATH": str(ours), "AIRFLOW_HOME": str(ours.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def event(self) -> dict[str, object]:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), PATIENCE_S)
        found: dict[str, object] = json.loads(line)
        return found

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        self._process.communicate(timeout=PATIENCE_S)


@pytest.mark.timeout(1200)
async def test_a_triggerer_that_confirms_nothing_acknowledges_after_a_while(
    tmp_path: Path,
) -> None:
    python = airflow_python()
    install_ours(python, tmp_path / "ours")
    with serving(tmp_path) as servers:
        async with Producer(servers.name_server) as producer, Admin(servers.name_server) as admin:
            await producer.send("old-orders", b"\xff", keys=["A1"])
            watcher = Watcher(python, tmp_path / "ours", servers.name_server, 600_000)
            try:
                assert (await watcher.event())["body_base64"] == "/w=="
            finally:
                watcher.kill()  # the event was handed over, and is nowhere yet
            watcher = Watcher(python, tmp_path / "ours", servers.name_server, 0)
            try:
                again = await watcher.event()
                assert (again["keys"], again["attempt"]) == (["A1"], 2)
                await producer.send("old-orders", b"next")
                assert (await watcher.event())["body"] == "next"
                await producer.send("old-orders", b"\0")  # which no database takes as text
                assert (await watcher.event())["body_base64"] == "AA=="

                async def lag() -> int:
                    return sum(
                        each.lag for each in await admin.offsets.of_group("airflow", "old-orders")
                    )

                async with asyncio.timeout(PATIENCE_S):
                    while await lag():  # noqa: ASYNC110 - a broker knows no event
                        await asyncio.sleep(0.2)
            finally:
                watcher.stop()
