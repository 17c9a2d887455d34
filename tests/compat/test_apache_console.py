"""The console of a cluster of Apache's newest servers: every page of it has something to show."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compat.support.apache import BROKER, NEWEST, find_apache
from tests.console.support.asking import asking

from rocketpipe import Producer
from rocketpipe.console.app import ENDPOINTS, PREFIX

pytestmark = pytest.mark.compat


async def test_every_question_is_answered_and_settings_are_changed(tmp_path: Path) -> None:
    apache = find_apache(NEWEST)
    async with (
        apache.cluster(tmp_path, brokerPermission=6) as servers,
        asking(servers.name_servers) as asker,
    ):
        await asker.log_in()
        await asker.post("topics", {"name": "orders", "queues": 2})
        await asker.post("groups", {"name": "billing"})
        async with Producer(servers.name_servers) as producer:
            sent = await producer.send("orders", b'{"order": 1}', keys=["A1"])
        asked = {"topic": "orders", "names": "orders", "group": "billing", "id": "A1"}
        for endpoint in ENDPOINTS:
            if endpoint.method != "GET" or endpoint.path == "/live":
                continue
            path = PREFIX + endpoint.path.format(
                topic="orders", group="billing", broker=BROKER, id=sent.offset_id, user="ana"
            )
            answer = await asker.client.get(path, params=asked)
            # Stacks there are of nobody; a broker without users has only a system error for them.
            usual = (400, 422) if "/users" in path else (200, 400, 404)
            assert answer.status_code in usual, (path, answer.text)
        rows = (await asker.get(f"brokers/{BROKER}/settings"))["rows"]
        assert len(rows) > 200
        assert {row["live"] for row in rows} == {None}, "Apache's do not tell what can be changed"
        change = {"key": "waitTimeMillsInSendQueue", "value": "300"}
        await asker.post(f"brokers/{BROKER}/settings", {**change, "confirm": change["key"]})
        (row,) = (await asker.get(f"brokers/{BROKER}/settings", q=change["key"]))["rows"]
        assert row["value"] == "300"
        found = await asker.get("messages", topic="orders", **{"from": "time"})
        assert [row["keys"] for row in found["rows"]] == [["A1"]]
