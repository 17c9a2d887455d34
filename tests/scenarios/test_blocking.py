"""Blocking clients against real servers, from threads, with signals and forks."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.blocking import (
    Admin,
    ConsumeFromWhere,
    Decision,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
    Session,
)
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.errors import NoRoute, ProcessForked
from rocketpipe.record.codec import RecordView
from rocketpipe.testing.servers import Servers, serving

pytestmark = pytest.mark.scenario

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
THREADS = 16


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest, servers: Servers) -> str:
    """A topic of the test's own."""
    name = request.node.name.replace("[", "-").rstrip("]")[:100]
    with Admin(servers.name_server) as admin:
        admin.topics.create(name, queues=4)
    return str(name)


def read_all(servers: Servers, topic: str, count: int) -> list[ReceivedMessage]:
    with PullConsumer(servers.name_server, group="reader", start=FIRST) as consumer:
        consumer.subscribe(topic)
        return list(islice(consumer, count))


@pytest.mark.parametrize("batching", [None, Batching()], ids=["plain", "batched"])
def test_threads_share_a_producer(servers: Servers, topic: str, batching: Batching | None) -> None:
    with Producer(servers.name_server, batching=batching) as producer:

        def work(thread: int) -> list[SendResult]:
            return [producer.send(topic, b"%d %d" % (thread, n), tags="t") for n in range(20)]

        with ThreadPoolExecutor(THREADS) as threads:
            results = [sent for some in threads.map(work, range(THREADS)) for sent in some]
    assert len({result.message_id for result in results}) == THREADS * 20
    assert len({(result.queue, result.queue_offset) for result in results}) == THREADS * 20
    found = read_all(servers, topic, THREADS * 20)
    assert {(message.message_id, message.tags) for message in found} == {
        (result.message_id, "t") for result in results
    }


def test_a_message_is_sent_in_every_way_there_is(servers: Servers, topic: str) -> None:
    told: list[SendResult | Exception] = []
    heard = threading.Event()

    def callback(said: SendResult | Exception) -> None:
        told.append(said)
        heard.set()

    with Producer(servers.name_server) as producer:
        one = producer.send(topic, b"one", keys=["A1"], order_by="A1")
        two = producer.send(Message(topic, b"two"), queue=one.queue)
        assert two.queue == one.queue
        producer.send_batch([Message(topic, b"three"), Message(topic, b"four")])
        producer.send_oneway(topic, b"five")
        producer.send_async(topic, b"six", callback=callback)
        assert heard.wait(PATIENCE_S)
    assert isinstance(told[0], SendResult)
    bodies = {message.body for message in read_all(servers, topic, 6)}
    assert bodies == {b"one", b"two", b"three", b"four", b"five", b"six"}


def test_a_topic_that_nobody_has_is_named_with_those_that_there_are(
    servers: Servers, topic: str
) -> None:
    with (
        PullConsumer(servers.name_server, group="g") as consumer,
        pytest.raises(NoRoute, match=f"'{topic}-not'"),
    ):
        consumer.queues_of(f"{topic}-not")


def test_handlers_run_in_threads_and_may_use_other_blocking_clients(
    servers: Servers, topic: str
) -> None:
    threads: set[threading.Thread] = set()
    both = threading.Barrier(2, timeout=PATIENCE_S)
    with Session(servers.name_server) as session, Producer(session) as producer:
        first = [producer.send(topic, b"%d" % number) for number in range(8)]
        consumer = PushConsumer(session, group="doubling", start=FIRST)

        @consumer.on(topic)
        def double(message: ReceivedMessage) -> None:
            if message.tags == "doubled":
                return
            both.wait()  # nobody gets on unless two run at a time
            threads.add(threading.current_thread())
            assert consumer.queues
            producer.send(topic, b"%d" % (2 * int(message.body)), tags="doubled")

        with consumer:
            found = read_all(servers, topic, 16)
    assert len(first) == 8
    doubled = sorted(int(each.body) for each in found if each.tags == "doubled")
    assert doubled == [2 * number for number in range(8)]
    assert len(threads) > 1
    assert threading.main_thread() not in threads


def test_a_handler_may_stop_its_consumer(servers: Servers, topic: str) -> None:
    consumer = PushConsumer(servers.name_server, group="once", start=FIRST)
    seen = []

    @consumer.on(topic)
    def once(message: ReceivedMessage) -> None:
        seen.append(message.body)
        consumer.stop()

    with Producer(servers.name_server) as producer:
        producer.send(topic, b"the end")
    with consumer:
        consumer.closed()
    assert seen == [b"the end"]


def test_an_iteration_that_is_left_goes_on_where_it_was(servers: Servers, topic: str) -> None:
    with Producer(servers.name_server) as producer:
        queue = producer.send(topic, b"0").queue
        for number in range(1, 6):
            producer.send(topic, b"%d" % number, queue=queue)
    seen = []
    for _ in range(2):
        with PullConsumer(servers.name_server, group="pausing", start=FIRST) as consumer:
            consumer.subscribe(topic)
            seen += [message.body for message in islice(consumer, 3)]
    assert seen == [b"%d" % number for number in range(6)]


def test_places_are_sought_and_committed(servers: Servers, topic: str) -> None:
    with Producer(servers.name_server) as producer:
        queue = producer.send(topic, b"0").queue
        for number in range(1, 4):
            producer.send(topic, b"%d" % number, queue=queue)
    with PullConsumer(servers.name_server, group="seeking", auto_commit=False) as consumer:
        consumer.assign([queue])
        assert consumer.queues == {queue}
        consumer.seek(queue, 2)
        assert consumer.position(queue) == 2
        assert next(iter(consumer)).body == b"2"
        consumer.commit({queue: 3})
        assert consumer.committed(queue) == 3
        consumer.pause(queue)
        assert consumer.poll(timeout_ms=1) == []
        consumer.resume(queue)
        consumer.seek_to_begin(queue)
        assert next(iter(consumer)).body == b"0"
    with Admin(servers.name_server) as admin:
        places = {each.queue: each.committed for each in admin.offsets.of_group("seeking", topic)}
        assert places[queue] == 3
        assert topic in admin.topics.names()
        assert len(admin.topics.stats(topic).queues) == 4


CONSUMES_UNTIL_INTERRUPTED = """
import os, sys
from rocketpipe.blocking import ConsumeFromWhere, PushConsumer

consumer = PushConsumer(
    sys.argv[1], group="interrupted", start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
)

def say(text):
    os.write(1, f"{text}\\n".encode())  # two threads do: in one piece

@consumer.on(sys.argv[2])
def show(message):
    say(message.body.decode())

try:
    with consumer:
        say("open")
        consumer.closed()
except KeyboardInterrupt:
    say("interrupted")
"""


def test_ctrl_c_ends_the_wait_and_closes_the_consumer(servers: Servers, topic: str) -> None:
    with Producer(servers.name_server) as producer:
        result = producer.send(topic, b"one")
    command = [sys.executable, "-c", CONSUMES_UNTIL_INTERRUPTED, servers.name_server, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert {child.stdout.readline() for _ in range(2)} == {"open\n", "one\n"}
            child.send_signal(signal.SIGINT)
            said, _ = child.communicate(timeout=PATIENCE_S)
        finally:
            child.kill()
    assert (said, child.returncode) == ("interrupted\n", 0)
    with Admin(servers.name_server) as admin:
        places = admin.offsets.of_group("interrupted", topic)
        assert {each.queue: each.committed for each in places}[result.queue] == 1


FORKS = """
import os, sys
from rocketpipe.blocking import Producer
from rocketpipe.errors import ProcessForked

address, topic = sys.argv[1:]
with Producer(address) as producer:
    producer.send(topic, b"before")
    child = os.fork()
    if not child:
        status = 1
        try:
            try:
                producer.send(topic, b"never")
            except ProcessForked:
                with Producer(address) as own:
                    own.send(topic, b"child")
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    producer.send(topic, b"after")
"""


def test_a_forked_child_has_clients_of_its_own_and_the_parents_go_on(
    servers: Servers, topic: str, tmp_path: Path
) -> None:
    script = tmp_path / "forks.py"
    script.write_text(textwrap.dedent(FORKS))
    command = [sys.executable, "-W", "ignore", str(script), servers.name_server, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert ProcessForked.__name__ not in done.stderr
    found = {message.body for message in read_all(servers, topic, 3)}
    assert found == {b"before", b"child", b"after"}


def test_a_transaction_is_decided_by_its_block_and_its_check_may_wait(
    servers: Servers, topic: str
) -> None:
    asked: list[str] = []

    def check(message: RecordView) -> Decision:
        asked.append(threading.current_thread().name)
        return Decision.COMMIT

    with Producer(servers.name_server, group="shop", check=check) as producer:
        with producer.transaction(topic, b"committed", keys=["A1"]) as begun:
            assert begun.sent is not None
            assert begun.decision is Decision.COMMIT
        with pytest.raises(LookupError), producer.transaction(topic, b"dropped"):
            raise LookupError
        with producer.transaction(topic, b"rolled back") as begun:
            begun.rollback()
        timed = producer.send(topic, b"taken back", delay=60)
        assert timed.recall_handle is not None
        assert producer.recall(topic, timed.recall_handle) == timed.message_id
        with Admin(servers.name_server) as admin:
            assert admin.waiting.transactions() == []
            assert admin.waiting.timed() == []
    (message,) = read_all(servers, topic, 1)
    assert (message.body, message.message_id) != (b"dropped", begun.message_id)
    assert message.body == b"committed"
    assert asked == []
