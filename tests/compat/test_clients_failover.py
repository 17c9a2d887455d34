"""Other people's clients, while the leader of a group of ours is killed and another one elected.

None of them knows of leaders: they find the new one in the routes that they ask for every now and
then. What their library said was sent has to come, by a consumer that was there all the time.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.broker.support.replica_group import replica_group
from tests.cli.cluster.support.running import cluster_up, wait_until
from tests.compat.clients.catalog import ALI_ONS, GO, JAVAS, ROCKETMQ_PYTHON, Client
from tests.compat.clients.driver import ClientRefused, Driver, Outgoing, driving
from tests.waiting import until

from rocketpipe import Message, Producer, blocking
from rocketpipe.cli.main import main

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400)]

log = logging.getLogger(__name__)

TOPIC = "orders"
SENT_EACH = 100
#: Those of Apache's, of 4.9 and of today, and two that are not.
CLIENTS = (JAVAS[0], JAVAS[2], GO, ALI_ONS, ROCKETMQ_PYTHON)


class Sending(threading.Thread):
    """Sends one message after another, and goes on after a refusal."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(daemon=True)
        self._driver = driver
        self._ends = threading.Event()
        self.acknowledged: list[bytes] = []
        self.refused: list[str] = []
        #: The longest time between two that were acknowledged.
        self.longest_s = 0.0

    def run(self) -> None:
        last_s, number = time.monotonic(), 0
        while not self._ends.is_set():
            body = b"%d" % number
            number += 1
            try:
                self._driver.send(Outgoing(topic=TOPIC, body=body))
            except ClientRefused as refused:
                self.refused.append(str(refused))
                continue
            self.acknowledged.append(body)
            now_s = time.monotonic()
            self.longest_s, last_s = max(self.longest_s, now_s - last_s), now_s

    def until(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted or not self.is_alive())
        assert self.is_alive()

    def end(self) -> None:
        self._ends.set()
        self.join()


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_nothing_that_was_sent_is_lost_when_the_leader_is_killed(
    client: Client, tmp_path: Path
) -> None:
    data, scratch = tmp_path / "cluster", tmp_path / "client"
    scratch.mkdir()
    with cluster_up(data, "--mode", "elected", "--session", "1s") as up:
        leader = up.until("leads")["name"]
        name_server = up.until("ready")["namesrv"]
        with blocking.Producer(name_server, timeout_ms=20_000) as producer:
            producer.send(TOPIC, b"first")
        start = client.start(name_server, client.word, scratch)
        with driving(client.word, start.command, scratch, start.environ) as driver:
            driver.consume("reader", f"{client.word}-readers", TOPIC)
            driver.until_bodies("reader", [b"first"])
            sending = Sending(driver)
            sending.start()
            sending.until(SENT_EACH)
            assert main(["cluster", "kill", leader, "--data", str(data)]) == 0
            assert up.until("leads")["name"] != leader
            sending.until(SENT_EACH)
            sending.end()
            got = driver.until_bodies("reader", sending.acknowledged)
    twice = sum(Counter(each.body for each in got).values()) - len({each.body for each in got})
    log.info(
        "failover client=%s acknowledged=%d refused=%d twice=%d longest_s=%.1f",
        client.name,
        len(sending.acknowledged),
        len(sending.refused),
        twice,
        sending.longest_s,
    )


@pytest.mark.parametrize("client", [JAVAS[0], JAVAS[2]], ids=lambda client: client.name)
async def test_java_reads_a_slave_while_its_master_is_away(client: Client, tmp_path: Path) -> None:
    async with replica_group(tmp_path) as group:
        master = await group.master()
        slave = await group.slave()
        async with Producer(group.name_server) as producer:
            for number in range(50):
                await producer.send(Message(topic=TOPIC, body=b"%d" % number))
        await until(lambda: slave.log_end == master.log_end)
        await until(lambda: slave.core.tables.topics.get(TOPIC) is not None)
        await master.stop()
        start = client.start(group.name_server, client.word, tmp_path)

        def read() -> None:
            with driving(client.word, start.command, tmp_path, start.environ) as driver:
                driver.consume("reader", "readers", TOPIC)
                driver.until_bodies("reader", [b"%d" % number for number in range(50)])

        await asyncio.to_thread(read)
