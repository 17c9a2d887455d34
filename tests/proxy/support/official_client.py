"""RocketMQ's official Python client at work, as its users have it: a program of its own.

    python official_client.py HOST:PORT SCENARIO...

Each scenario prints one line of JSON: what it saw. Topics and groups are named after the scenario,
and are there before. Whoever runs it says by HOME where the client may write its log, and by
OFFICIAL_CLIENT_TLS that it is to use TLS; it trusts whom GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import rocketmq
from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    TransactionChecker,
    TransactionResolution,
)

PATIENCE_S = 100
TLS = "OFFICIAL_CLIENT_TLS" in os.environ

Producer = partial(rocketmq.Producer, tls_enable=TLS)
SimpleConsumer = partial(rocketmq.SimpleConsumer, tls_enable=TLS)
PushConsumer = partial(rocketmq.PushConsumer, tls_enable=TLS)


#: As clients of ours hear who they are.
ACCESS_KEY = os.environ.get("ROCKETPIPE_ACCESS_KEY", "")
SECRET_KEY = os.environ.get("ROCKETPIPE_SECRET_KEY", "")


def configuration(
    endpoints: str, namespace: str = "", ak: str = ACCESS_KEY, sk: str = SECRET_KEY
) -> Any:
    return ClientConfiguration(endpoints, Credentials(ak, sk), namespace)


def message(topic: str, body: str, **said: Any) -> Message:
    one = Message()
    one.topic = topic
    one.body = body.encode()
    for name, value in said.items():
        if name == "properties":
            for key, text in value.items():
                one.add_property(key, text)
        else:
            setattr(one, name, value)
    return one


def received(consumer: rocketmq.SimpleConsumer, count: int, batch: int = 16) -> list[Any]:
    """Receive and acknowledge until there are so many."""
    found: list[Any] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < until:
        for one in consumer.receive(batch, 20) or []:
            consumer.ack(one)
            found.append(one)
    return found


class Collector(MessageListener):
    """Counts what comes; what ``fails`` says does so the first time."""

    def __init__(self, fails: Callable[[str], bool] = lambda body: False) -> None:
        self.seen: list[tuple[str, int]] = []
        self.done: list[str] = []
        self._fails = fails
        self._lock = threading.Lock()

    def consume(self, message: Message) -> ConsumeResult:
        body = message.body.decode()
        with self._lock:
            first = all(body != before for before, _ in self.seen)
            self.seen.append((body, message.delivery_attempt))
            if first and self._fails(body):
                return ConsumeResult.FAILURE
            self.done.append(body)
        return ConsumeResult.SUCCESS

    def wait(self, count: int) -> None:
        until = time.monotonic() + PATIENCE_S
        while len(self.done) < count and time.monotonic() < until:
            time.sleep(0.01)


def simple(endpoints: str) -> dict[str, Any]:
    """Sends with all there is to say, filters, acknowledges, changes what is hidden."""
    producer = Producer(configuration(endpoints), ["simple"])
    producer.startup()
    receipts = [
        producer.send(
            message("simple", f"m{n}", tag="ab"[n % 2], keys=f"k{n}", properties={"n": str(n)})
        )
        for n in range(6)
    ]
    consumer = SimpleConsumer(
        configuration(endpoints), "simple-g", {"simple": FilterExpression("a")}, 5
    )
    consumer.startup()
    found = received(consumer, 3)
    told = [
        [one.body.decode(), one.tag, sorted(one.keys), one.properties.get("n"), one.message_id]
        for one in found
    ]
    consumer.shutdown()
    producer.shutdown()
    return {"received": sorted(told), "sent": [one.message_id for one in receipts]}


def sql(endpoints: str) -> dict[str, Any]:
    """Filters by SQL92."""
    from rocketmq.grpc_protocol import FilterType

    producer = Producer(configuration(endpoints), ["sql"])
    producer.startup()
    for n in range(6):
        producer.send(message("sql", f"m{n}", properties={"n": str(n)}))
    wanted = FilterExpression("n > 3", FilterType.SQL)
    consumer = SimpleConsumer(configuration(endpoints), "sql-g", {"sql": wanted}, 5)
    consumer.startup()
    found = received(consumer, 2)
    consumer.shutdown()
    producer.shutdown()
    return {"received": sorted(one.body.decode() for one in found)}


def push(endpoints: str) -> dict[str, Any]:
    """Pushes, with one message that fails at first and comes again."""
    producer = Producer(configuration(endpoints), ["push"])
    producer.startup()
    collector = Collector(lambda body: body == "m3")
    consumer = PushConsumer(
        configuration(endpoints), "push-g", collector, {"push": FilterExpression()}
    )
    consumer.startup()
    for n in range(8):
        producer.send(message("push", f"m{n}"))
    collector.wait(8)
    consumer.shutdown()
    producer.shutdown()
    return {"done": sorted(collector.done), "failed": [s for s in collector.seen if s[0] == "m3"]}


def fifo(endpoints: str) -> dict[str, Any]:
    """Pushes in order by message group, though one of each group fails at first."""
    producer = Producer(configuration(endpoints), ["fifo"])
    producer.startup()
    for n in range(5):
        for group in "xyz":
            producer.send(message("fifo", f"{group}{n}", message_group=group))
    collector = Collector(lambda body: body.endswith("2"))
    consumer = PushConsumer(
        configuration(endpoints), "fifo-g", collector, {"fifo": FilterExpression()}
    )
    consumer.startup()
    collector.wait(15)
    consumer.shutdown()
    producer.shutdown()
    return {group: [body for body in collector.done if body.startswith(group)] for group in "xyz"}


def delayed(endpoints: str) -> dict[str, Any]:
    """Sends one for later, and one that is recalled."""
    producer = Producer(configuration(endpoints), ["delayed"])
    producer.startup()
    consumer = SimpleConsumer(
        configuration(endpoints), "delayed-g", {"delayed": FilterExpression()}, 5
    )
    consumer.startup()
    due_s = int(time.time()) + 3
    producer.send(message("delayed", "later", delivery_timestamp=due_s))
    never = producer.send(message("delayed", "never", delivery_timestamp=due_s + 3600))
    recalled = producer.recall_message("delayed", never.recall_handle)
    (found,) = received(consumer, 1)
    at_s = time.time()
    consumer.shutdown()
    producer.shutdown()
    return {
        "body": found.body.decode(),
        "in_time": at_s >= due_s,
        "recalled": recalled == never.message_id,
    }


class Commits(TransactionChecker):
    """Says of each message what its body says."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, message: Message) -> TransactionResolution:
        self.asked.append(message.body.decode())
        return TransactionResolution.COMMIT


def transaction(endpoints: str) -> dict[str, Any]:
    """Commits, rolls back, and leaves one to be asked about."""
    checker = Commits()
    producer = Producer(configuration(endpoints), ["transaction"], checker=checker)
    producer.startup()
    consumer = SimpleConsumer(
        configuration(endpoints), "transaction-g", {"transaction": FilterExpression()}, 5
    )
    consumer.startup()
    for body in ("commit", "rollback", "forgotten"):
        half = producer.begin_transaction()
        producer.send(message("transaction", body), half)
        if body == "commit":
            half.commit()
        elif body == "rollback":
            half.rollback()
    found = received(consumer, 2)
    consumer.shutdown()
    producer.shutdown()
    return {"received": sorted(one.body.decode() for one in found), "asked": checker.asked[:1]}


def namespaced(endpoints: str) -> dict[str, Any]:
    """Sends and receives inside a namespace."""
    told = configuration(endpoints, namespace="house")
    producer = Producer(told, ["namespaced"])
    producer.startup()
    producer.send(message("namespaced", "inside"))
    consumer = SimpleConsumer(told, "namespaced-g", {"namespaced": FilterExpression()}, 5)
    consumer.startup()
    (found,) = received(consumer, 1)
    consumer.shutdown()
    producer.shutdown()
    return {"body": found.body.decode(), "topic": found.topic}


def mixed(endpoints: str) -> dict[str, Any]:
    """Takes part in a group's life: receives what others sent, and sends for others."""
    producer = Producer(configuration(endpoints), ["mixed"])
    producer.startup()
    consumer = SimpleConsumer(configuration(endpoints), "mixed-g", {"mixed": FilterExpression()}, 5)
    consumer.startup()
    found = received(consumer, 3)
    producer.send(message("mixed", "from grpc", tag="t", keys="k", properties={"p": "v"}))
    consumer.shutdown()
    producer.shutdown()
    return {"received": sorted(one.body.decode() for one in found)}


SCENARIOS: dict[str, Callable[[str], dict[str, Any]]] = {
    scenario.__name__: scenario
    for scenario in (simple, sql, push, fifo, delayed, transaction, namespaced, mixed)
}


def main() -> int:
    endpoints, *wanted = sys.argv[1:]
    results: dict[str, Any] = {}

    def run(name: str) -> None:
        try:
            results[name] = SCENARIOS[name](endpoints)
        except Exception as error:
            results[name] = {"error": repr(error)}
        # One write a line: `print` writes its end by itself, and others print meanwhile.
        sys.stdout.write(json.dumps({name: results[name]}) + "\n")
        sys.stdout.flush()

    threads = [threading.Thread(target=run, args=(name,)) for name in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
