"""A message starts a run of a DAG in a real Airflow, once, and a killed triggerer loses none."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compat.support.airflow import Airflow

from rocketpipe import Producer
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
