"""Changes of a PostgreSQL table come to a topic of ours by Debezium Server's RocketMQ sink."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from subprocess import Popen

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.compat.support.debezium import Debezium
from tests.ports import lasting_ports
from tests.tables.support.postgres import PostgresServer

from rocketpipe import SimpleConsumer
from rocketpipe.testing import serving

pytestmark = pytest.mark.compat

TOPIC = "shop_public_orders"
PATIENCE_S = 300


def settings(name_server: str, port: int, database: str, home: Path) -> dict[str, object]:
    """Those of docs/how-to/others-tools.md."""
    return {
        "debezium.sink.type": "rocketmq",
        "debezium.sink.rocketmq.producer.name.srv.addr": name_server,
        "debezium.sink.rocketmq.producer.group": "debezium",
        "debezium.sink.rocketmq.producer.send.msg.timeout": 30_000,
        "debezium.source.connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "debezium.source.plugin.name": "pgoutput",
        "debezium.source.database.hostname": "127.0.0.1",
        "debezium.source.database.port": port,
        "debezium.source.database.user": "postgres",
        "debezium.source.database.password": "none",
        "debezium.source.database.dbname": database,
        "debezium.source.topic.prefix": "shop",
        "debezium.source.topic.delimiter": "_",
        "debezium.source.tombstones.on.delete": "false",
        "debezium.source.offset.storage.file.filename": home / "offsets",
        "debezium.source.offset.flush.interval.ms": 1000,
        "debezium.format.key.schemas.enable": "false",
        "debezium.format.value.schemas.enable": "false",
        "quarkus.http.port": 0,
    }


class Copy:
    """The table, made of its changes as they are read."""

    def __init__(self, consumer: SimpleConsumer) -> None:
        self._consumer = consumer
        self.rows: dict[int, str] = {}
        self.kinds: list[str] = []

    async def until(self, rows: dict[int, str], process: Popen[bytes], tool: Debezium) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.rows != rows:
                assert process.poll() is None, tool.log()[-4000:]
                # One at a time: a queue's changes are in order.
                for message in await self._consumer.receive(max_messages=1, wait_ms=5000):
                    self._apply(json.loads(message.body))
                    await self._consumer.ack(message)

    def _apply(self, change: dict[str, dict[str, object]]) -> None:
        self.kinds.append(str(change["op"]))
        if change["after"] is None:
            self.rows.pop(int(str(change["before"]["id"])), None)
        else:
            self.rows[int(str(change["after"]["id"]))] = str(change["after"]["item"])


@pytest.mark.timeout(1200)
async def test_a_table_and_its_changes_come_to_a_topic_in_order(tmp_path: Path) -> None:
    postgres = PostgresServer(lasting_ports(1)[0], "wal_level=logical")
    try:
        with serving(tmp_path) as servers:
            address = postgres.new_database()
            database = str(conninfo_to_dict(address)["dbname"])
            home = tmp_path / "debezium"
            tool = Debezium(home, settings(servers.name_server, postgres.port, database, home))
            async with (
                await psycopg.AsyncConnection.connect(address, autocommit=True) as table,
                SimpleConsumer(servers.name_server, group="copy", ordered=True) as consumer,
            ):
                copy = Copy(consumer)
                await consumer.subscribe(TOPIC)
                await table.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
                await table.execute("INSERT INTO orders VALUES (1, 'tea'), (2, 'milk')")
                with tool.running() as process:
                    await copy.until({1: "tea", 2: "milk"}, process, tool)
                    await table.execute("UPDATE orders SET item = 'café' WHERE id = 1")
                    await table.execute("DELETE FROM orders WHERE id = 2")
                    for number in range(100):
                        await table.execute("INSERT INTO orders VALUES (%s, '')", (10 + number,))
                # It was killed while it sent; what changes meanwhile is not lost either.
                await table.execute("UPDATE orders SET item = 'done' WHERE id >= 10")
                done = {10 + number: "done" for number in range(100)}
                with tool.running() as process:
                    await copy.until({1: "café", **done}, process, tool)
            assert {"r", "u", "d", "c"} <= set(copy.kinds)
    finally:
        postgres.close()
