"""A message shows if, and only if, the row that belongs to it was committed.

The database says how each transaction ended. So a broker that did not hear the end, because this
process died in between, can ask any producer of the group, and gets the right answer.

rocketpipe serve --data data &
python examples/transactions.py
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rocketpipe import ConsumeFromWhere, Decision
from rocketpipe.blocking import Producer, PullConsumer

NAME_SERVERS = os.environ.get("ROCKETPIPE_NAMESRV", "127.0.0.1:9876")
TOPIC = "TopicTransactions"


class OutOfStock(Exception):
    """There is none of it left."""


class Orders:
    """A shop's table, with the id of the message that tells of each row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as database:
            database.execute("create table orders (message_id text primary key, what text)")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path)) as database, database:
            yield database

    def add(self, message_id: str, what: str) -> None:
        """Commit a row, or raise and leave none."""
        if what == "unicorn":
            raise OutOfStock(what)
        with self._open() as database:
            database.execute("insert into orders values (?, ?)", (message_id, what))

    def decision(self, message_id: str) -> Decision:
        """What becomes of a message: it shows if its row was committed."""
        with self._open() as database:
            found = database.execute("select 1 from orders where message_id = ?", (message_id,))
            return Decision.COMMIT if found.fetchone() else Decision.ROLLBACK


def main(directory: Path) -> None:
    orders = Orders(directory / "orders.db")
    shown: list[str] = []

    with Producer(
        NAME_SERVERS, group="shop", check=lambda message: orders.decision(message.message_id)
    ) as producer:
        for what in ("espresso", "unicorn", "tea"):
            try:
                with producer.transaction(TOPIC, what.encode(), keys=[what]) as begun:
                    orders.add(begun.message_id, what)  # decided here, for row and message
                shown.append(begun.message_id)
            except OutOfStock as error:
                print(f"no {error}: the message never shows")

    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    seen: dict[str, str] = {}
    with PullConsumer(NAME_SERVERS, group="kitchen", start=first) as consumer:
        consumer.subscribe(TOPIC)
        while not set(shown) <= set(seen):
            seen |= {each.message_id: each.body.decode() for each in consumer.poll()}
    for message_id in shown:
        print(f"ordered: {seen[message_id]}")
    assert "unicorn" not in seen.values()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
