"""Kombu on real servers: queues, exchanges, acknowledgements, and those who are killed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.common import Broadcast
from kombu.exceptions import ChannelError
from tests.waiting import PATIENCE_S, until_there

from rocketpipe import blocking
from rocketpipe.errors import ConnectionLost, MessageRefused
from rocketpipe.integrations.kombu import Transport
from rocketpipe.testing import Servers, serving

pytestmark = pytest.mark.scenario


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture
def url(request: pytest.FixtureRequest, servers: Servers) -> str:
    """A virtual host of the test's own."""
    host = f"t{abs(hash(request.node.name)) % 10**9}"
    return f"rocketpipe://{servers.name_server}/{host}"


class Taken:
    """What a consumer was given, in order."""

    def __init__(self, *, acks: bool = True) -> None:
        self.bodies: list[Any] = []
        self.messages: list[Any] = []
        self._acks = acks

    def __call__(self, body: Any, message: Any) -> None:
        self.bodies.append(body)
        self.messages.append(message)
        if self._acks:
            message.ack()


def drain(connection: Connection, holds: Callable[[], object]) -> None:
    """Let events come until something holds."""
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s, "it never came"
        try:
            connection.drain_events(timeout=0.1)
        except TimeoutError:
            continue


def nothing_comes(connection: Connection) -> None:
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=1)


@contextmanager
def consuming(url: str, *queues: Queue, acks: bool = True, **options: Any) -> Iterator[Any]:
    """A connection with a consumer; what it is given."""
    with Connection(url, transport_options=options.pop("transport_options", {})) as connection:
        taken = Taken(acks=acks)
        with Consumer(connection, queues, callbacks=[taken], **options) as consumer:
            yield connection, taken, consumer


def publish(
    url: str, *bodies: Any, exchange: Any = "", routing_key: str = "", **parts: Any
) -> None:
    with Connection(url) as connection:
        producer = Producer(connection)
        for body in bodies:
            producer.publish(body, exchange=exchange, routing_key=routing_key, **parts)


# Queues and acknowledgements


def test_what_is_sent_is_received_in_order_once(url: str) -> None:
    queue = Queue("tasks")
    publish(url, *range(50), routing_key="tasks", declare=[queue])
    with Connection(url) as connection:
        assert queue(connection.default_channel).queue_declare(passive=True).message_count == 50
    with consuming(url, queue) as (connection, taken, _):
        drain(connection, lambda: len(taken.bodies) == 50)
    assert taken.bodies == list(range(50))
    with consuming(url, queue) as (connection, _, _):
        nothing_comes(connection)


def test_bodies_of_any_kind_come_back(url: str) -> None:
    queue = Queue("any")
    with consuming(url, queue, accept=["json", "pickle"]) as (connection, taken, _):
        publish(url, {"a": [1, "é"]}, routing_key="any")
        publish(url, b"\xff\x00", routing_key="any", serializer="pickle")
        drain(connection, lambda: len(taken.bodies) == 2)
    assert taken.bodies == [{"a": [1, "é"]}, b"\xff\x00"]


def test_no_more_are_in_hand_than_were_asked_for(url: str) -> None:
    queue = Queue("few")
    publish(url, *range(10), routing_key="few", declare=[queue])
    with consuming(url, queue, acks=False, prefetch_count=3) as (connection, taken, _):
        drain(connection, lambda: len(taken.bodies) == 3)
        nothing_comes(connection)
        assert taken.bodies == [0, 1, 2]
        taken.messages[0].ack()
        drain(connection, lambda: len(taken.bodies) == 4)
        for message in taken.messages[1:]:
            message.ack()


def test_what_is_rejected_comes_again_or_never(url: str) -> None:
    queue = Queue("rejected")
    publish(url, "again", "never", routing_key="rejected", declare=[queue])
    with consuming(url, queue, acks=False) as (connection, taken, _):
        drain(connection, lambda: len(taken.bodies) == 2)
        assert not taken.messages[0].delivery_info["redelivered"]
        taken.messages[0].reject(requeue=True)
        taken.messages[1].reject()
        drain(connection, lambda: len(taken.bodies) == 3)
        assert taken.bodies[2] == "again"
        assert taken.messages[2].delivery_info["redelivered"]
        taken.messages[2].ack()
        nothing_comes(connection)


def test_what_a_closed_connection_had_in_hand_comes_at_once_to_another(url: str) -> None:
    queue = Queue("closed")
    publish(url, 1, 2, routing_key="closed", declare=[queue])
    slow = {"visibility_timeout": 3600}
    with consuming(url, queue, acks=False, transport_options=slow) as (connection, taken, _):
        drain(connection, lambda: len(taken.bodies) == 2)
    with consuming(url, queue) as (connection, taken, _):
        drain(connection, lambda: len(taken.bodies) == 2)
    assert sorted(taken.bodies) == [1, 2]


def test_an_acknowledgement_that_is_refused_keeps_no_other(
    url: str, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    doomed, alive = Queue("doomed"), Queue("alive")
    with consuming(url, doomed, alive, acks=False) as (connection, taken, _):
        link = connection.connection.link
        for name in ("doomed", "alive", "alive"):
            publish(url, name, routing_key=name)
        drain(connection, lambda: len(taken.bodies) == 3)
        with blocking.Admin(servers.name_server) as admin:
            admin.topics.delete(link.names.topic("doomed"))
        for message in sorted(taken.messages, key=lambda each: each.decode(), reverse=True):
            message.ack()
            link.run(link.holding.settle(5))
        assert not [each for each in caplog.messages if "not told" in each]
        assert len([each for each in caplog.messages if "comes again all the same" in each]) == 1
        until_there(lambda: not (link.holding._held or link.run(link.size("alive"))))


def test_work_that_takes_longer_than_the_invisible_time_is_given_once(url: str) -> None:
    queue = Queue("long")
    publish(url, "work", routing_key="long", declare=[queue])
    quick = {"visibility_timeout": 1}
    with consuming(url, queue, acks=False, transport_options=quick) as (one, taken, _):
        drain(one, lambda: taken.bodies)
        with consuming(url, queue, transport_options=quick) as (other, others, _):
            until_s = time.monotonic() + 3  # three times as long as it is hidden at a time
            drain(other, lambda: time.monotonic() > until_s)
        assert (taken.bodies, others.bodies) == (["work"], [])
        taken.messages[0].ack()


def test_what_a_killed_process_held_goes_on_elsewhere(url: str) -> None:
    queue = Queue("killed")
    publish(url, "work", routing_key="killed", declare=[queue])
    program = """
        import os, sys
        from kombu import Connection, Consumer, Queue
        import rocketpipe.integrations.kombu
        options = {"visibility_timeout": 2}
        die = lambda *_: os.kill(os.getpid(), 9)
        with Connection(sys.argv[1], transport_options=options) as connection:
            with Consumer(connection, [Queue("killed")], callbacks=[die]):
                while True:
                    connection.drain_events()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), url], timeout=PATIENCE_S, check=False
    )
    assert done.returncode == -9
    with consuming(url, queue) as (connection, taken, _):
        drain(connection, lambda: taken.bodies)
        assert taken.messages[0].delivery_info["redelivered"]


def test_what_a_cancelled_consumer_was_to_get_goes_to_others(url: str) -> None:
    queue = Queue("cancelled")
    publish(url, *range(5), routing_key="cancelled", declare=[queue])
    slow = {"visibility_timeout": 3600}
    with consuming(url, queue, transport_options=slow) as (connection, taken, consumer):
        drain(connection, lambda: taken.bodies)
        consumer.cancel()
        with consuming(url, queue) as (other, others, _):
            drain(other, lambda: len(taken.bodies) + len(others.bodies) == 5)
    assert sorted(taken.bodies + others.bodies) == list(range(5))


def test_urgent_messages_come_first_where_a_queue_has_priorities(url: str) -> None:
    queue = Queue("urgent", max_priority=9)
    with Connection(url) as connection:
        producer = Producer(connection)
        for priority in (0, 3, 9, 5, 1):
            producer.publish(priority, routing_key="urgent", priority=priority, declare=[queue])
    # Who does not say that there are priorities finds them all the same.
    with consuming(url, Queue("urgent"), prefetch_count=1) as (connection, taken, _):
        drain(connection, lambda: len(taken.bodies) == 5)
    assert taken.bodies == [9, 3, 5, 0, 1]  # 3 to 5 and 0 to 2 are one step each


def test_a_further_queue_does_not_wait_for_the_question_under_way(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketpipe.integrations.kombu.fetching.WAIT_MS", 600_000)
    with consuming(url, Queue("first"), prefetch_count=3) as (connection, taken, consumer):
        publish(url, "one", routing_key="first")
        drain(connection, lambda: taken.bodies)
        fetching = consumer.channel.fetching

        def is_last(body: str) -> bool:
            return bool(taken.bodies[-1] == body)

        for name in ("second", "ü third/with.dots", "_t", "a_p3", "x" * 200):
            until_s = time.monotonic() + PATIENCE_S
            while not fetching._asked or fetching._is_more.is_set():  # a question is under way
                assert time.monotonic() < until_s
                time.sleep(0.01)
            consumer.add_queue(Queue(name, max_priority=9))
            consumer.consume()
            publish(url, name, routing_key=name, priority=4)
            drain(connection, partial(is_last, name))
        publish(url, "two", routing_key="first")
        drain(connection, partial(is_last, "two"))
        assert len(taken.bodies) == 7


def test_several_questions_bring_no_more_than_was_asked_for(url: str) -> None:
    with consuming(url, Queue("left"), acks=False, prefetch_count=1) as (connection, taken, one):
        for name in ("left-b", "left-c"):
            one.add_queue(Queue(name))
            one.consume()
        for name in ("left", "left-b", "left-c"):
            publish(url, name, routing_key=name)
        drain(connection, lambda: taken.bodies)
        nothing_comes(connection)
        taken.messages[0].ack()
        drain(connection, lambda: len(taken.bodies) == 2)
        taken.messages[1].ack()
        drain(connection, lambda: len(taken.bodies) == 3)
        taken.messages[2].ack()
        assert sorted(taken.bodies) == ["left", "left-b", "left-c"]


def test_a_queue_is_purged_deleted_and_gone(url: str) -> None:
    queue = Queue("purged", Exchange("purged", "direct"), routing_key="purged")
    publish(url, *range(40), routing_key="purged", declare=[queue])
    with Connection(url) as connection:
        bound = queue(connection.default_channel)
        assert bound.purge() == 40
        assert bound.purge() == 0
        assert connection.default_channel.basic_get("purged") is None
        publish(url, 1, routing_key="purged")
        bound.delete(if_empty=True)
        bound.queue_declare(passive=True)
        message = bound.get(no_ack=True)
        assert message.payload == 1
        assert bound.get() is None
        bound.delete()
        assert list(connection.default_channel.get_table("purged")) == []
        with pytest.raises(ChannelError, match="no queue 'purged'"):
            bound.queue_declare(passive=True)


def test_a_message_that_is_too_long_is_refused_by_one_line(url: str) -> None:
    with pytest.raises(MessageRefused, match="4194304 are the most"):
        publish(url, "x" * 5_000_000, routing_key="large", declare=[Queue("large")])


def test_what_kombu_has_not_sent_is_left_in_the_broker(url: str, servers: Servers) -> None:
    queue = Queue("odd")
    with consuming(url, queue) as (connection, taken, _):
        topic = connection.transport.link.names.topic("odd")
        with blocking.Producer(servers.name_server) as producer:
            producer.send(topic, b"\xff no message of Kombu's")
        publish(url, "good", routing_key="odd")
        drain(connection, lambda: taken.bodies)
        assert taken.bodies == ["good"]


# Delays


def test_a_task_comes_when_it_is_due_and_waits_at_the_broker(url: str) -> None:
    queue = Queue("later")
    due = datetime.now(UTC) + timedelta(seconds=3)
    publish(url, "x", routing_key="later", declare=[queue], headers={"eta": due.isoformat()})
    publish(url, "past", routing_key="later", headers={"eta": "2020-01-01T00:00:00+00:00"})
    with consuming(url, queue) as (connection, taken, _):
        drain(connection, lambda: "past" in taken.bodies)
        drain(connection, lambda: "x" in taken.bodies)
    assert datetime.now(UTC) >= due


def test_a_delay_beyond_what_brokers_take_goes_in_hops(url: str) -> None:
    queue = Queue("hops")
    options = {"max_delay": 32}  # of which 30 s are left to the worker: hops of two seconds
    due = datetime.now(UTC) + timedelta(seconds=35)
    headers = {"eta": due.isoformat(), "id": "T1"}
    with Connection(url, transport_options=options) as connection:
        Producer(connection).publish("x", routing_key="hops", declare=[queue], headers=headers)
    with consuming(url, queue, transport_options=options) as (connection, taken, _):
        drain(connection, lambda: taken.bodies)
        link = connection.transport.link
        topic = link.names.topic("hops")
        sent = link.run(link.admin.messages.by_key(topic, "T1"))
        assert len(list(sent)) >= 2  # three, unless the machine is slow
        assert (due - datetime.now(UTC)).total_seconds() < 31


# Exchanges


def test_bindings_are_seen_by_processes_that_did_not_make_them(url: str) -> None:
    news = Exchange("news", "topic")
    sport = Queue("sport", news, routing_key="news.sport.#")
    everything = Queue("everything", news, routing_key="#")
    with Connection(url) as connection:
        for queue in (sport, everything):
            queue(connection.default_channel).declare()
    program = """
        import sys
        from kombu import Connection, Exchange, Producer
        import rocketpipe.integrations.kombu
        with Connection(sys.argv[1]) as connection:
            producer = Producer(connection)
            producer.publish("goal", exchange="news", routing_key="news.sport.soccer")
            producer.publish("rain", exchange="news", routing_key="news.weather")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), url], check=True)
    with Connection(url) as connection:
        channel = connection.default_channel
        assert [channel.basic_get("sport", no_ack=True).decode()] == ["goal"]
        assert channel.basic_get("sport") is None
        got = [channel.basic_get("everything", no_ack=True).decode() for _ in range(2)]
        assert got == ["goal", "rain"]
        channel.queue_unbind("sport", "news", "news.sport.#")
        publish(url, "save", exchange="news", routing_key="news.sport.soccer")
        assert channel.basic_get("everything", no_ack=True).decode() == "save"
        assert channel.basic_get("sport") is None


def test_a_fanout_reaches_every_process_and_queues_that_last(url: str) -> None:
    control = Exchange("control", "fanout", durable=False)
    lasting = Queue("log", control)
    boxes = [Queue(f"box{n}", control, exclusive=True, auto_delete=True) for n in range(2)]
    with Connection(url) as connection:
        lasting(connection.default_channel).declare()
    with (
        consuming(url, boxes[0], no_ack=True, acks=False) as (one, first, _),
        consuming(f"{url}?", boxes[1], no_ack=True, acks=False) as (other, second, _),
    ):
        publish(url, "hear", exchange=control)
        drain(one, lambda: first.bodies)
        drain(other, lambda: second.bodies)
        with Connection(url) as connection:
            assert connection.default_channel.basic_get("log", no_ack=True).decode() == "hear"


def test_an_answer_finds_the_queue_of_who_asked(url: str) -> None:
    answers = Exchange("answers", "direct", durable=False)
    mine = Queue("me.answers", answers, "me", exclusive=True, auto_delete=True, expires=10)
    with Connection(url) as connection:
        channel = connection.default_channel
        mine(channel).declare()
        publish(url, "for me", exchange=answers, routing_key="me")
        publish(url, "for another", exchange=answers, routing_key="you")
        publish(url, "straight", routing_key="me.answers")
        taken = Taken(acks=False)
        with Consumer(channel, [mine], callbacks=[taken], no_ack=True):
            drain(connection, lambda: len(taken.bodies) == 2)
            assert taken.bodies == ["for me", "straight"]
        channel.after_reply_message_received("me.answers")
        assert not channel._is_transient("me.answers")


def test_a_queue_of_one_reader_keeps_no_more_than_its_backlog(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketpipe.integrations.kombu.transient.BACKLOG", 3)
    monkeypatch.setattr("rocketpipe.integrations.kombu.channel.BACKLOG", 3)
    queue = Queue("small", exclusive=True)
    with consuming(url, queue, no_ack=True, acks=False) as (connection, taken, _):
        link = connection.connection.link
        publish(url, *range(10), routing_key="small")
        kept = link.transient.get("small").backlog
        wait_s = time.monotonic() + PATIENCE_S
        while not kept or kept[-1][1]["body"] != "9":
            assert time.monotonic() < wait_s
            time.sleep(0.01)
        assert len(connection.transport.arrivals) <= 3
        drain(connection, lambda: len(taken.bodies) == 3)
        assert taken.bodies == [7, 8, 9]
        nothing_comes(connection)


def test_a_queue_of_one_reader_has_nothing_to_acknowledge(url: str) -> None:
    queue = Queue("mine", exclusive=True)
    with Connection(url) as connection, pytest.raises(ChannelError, match="one reader"):
        Consumer(connection, [queue], callbacks=[Taken()]).consume()


def test_queues_of_one_reader_leave_nothing_at_the_broker(url: str, servers: Servers) -> None:
    with Connection(url) as connection:
        link = connection.connect().link
        before = link.run(link.admin.topics.names())
        for number in range(20):
            Queue(f"box{number}", Exchange("f", "fanout"), exclusive=True)(
                connection.default_channel
            ).declare()
        assert link.run(link.admin.topics.names()) == before


def test_a_queue_goes_with_its_last_consumer(url: str) -> None:
    exchange = Exchange("tell", "fanout")
    queue = Broadcast("told", exchange=exchange, unique=True)
    with consuming(url, queue) as (connection, taken, _), Connection(url) as looking:
        publish(url, "hear", exchange=exchange)
        drain(connection, lambda: taken.bodies)
        second = Consumer(looking, [queue], callbacks=[Taken()])
        second.consume()
        second.cancel()
        second.channel.close()
        queue(looking.default_channel).queue_declare(passive=True)
    with Connection(url) as connection:
        with pytest.raises(ChannelError, match="no queue"):
            queue(connection.default_channel).queue_declare(passive=True)
        assert connection.default_channel.get_table("tell") == []


def test_queues_whose_consumers_were_killed_are_deleted_by_who_comes(url: str) -> None:
    program = """
        import os, sys
        from kombu import Connection, Consumer, Exchange
        from kombu.common import Broadcast
        import rocketpipe.integrations.kombu
        from rocketpipe.integrations.kombu import leases
        leases.GONE_S = leases.EVERY_S = -1
        queue = Broadcast("told", queue="dead", exchange=Exchange("t", "fanout"))
        with Connection(sys.argv[1]) as connection:
            with Consumer(connection, [queue]):
                os.kill(os.getpid(), 9)
    """
    code = [sys.executable, "-c", textwrap.dedent(program), url]
    assert subprocess.run(code, check=False, timeout=PATIENCE_S).returncode == -9
    with Connection(url) as connection:
        link = connection.connect().link
        assert link.run(link.topics_of("dead"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rocketpipe.integrations.kombu.leases.GONE_S", -1)
            until_s = time.monotonic() + PATIENCE_S
            while link.run(link.topics_of("dead")):
                assert time.monotonic() < until_s
                other = Broadcast("told", queue="alive", exchange=Exchange("t", "fanout"))
                with consuming(url, other):
                    pass


# Connections


def test_who_is_not_there_is_named(url: str, servers: Servers) -> None:
    with Connection("rocketpipe://127.0.0.1:1//") as nobody:
        with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1: no NameServer answers"):
            nobody.connect()
        assert isinstance(ConnectionLost("a", "b"), nobody.connection_errors)
    with Connection(f"rocketpipe://{servers.broker}//") as broker:
        with pytest.raises(ConnectionLost, match="a broker, and a NameServer is wanted"):
            broker.connect()
    with pytest.raises(ValueError, match="is 'visibility_timeout' meant"):
        Connection(url, transport_options={"visibilty_timeout": 1}).connect()


def test_a_list_of_addresses_is_gone_through(url: str) -> None:
    with Connection(f"rocketpipe://127.0.0.1:1//;{url}") as connection:
        connection.ensure_connection(max_retries=3, interval_start=0, interval_step=0)
        assert url.partition("://")[2] in connection.as_uri()
        publish(url, 1, routing_key="listed", declare=[Queue("listed")])
        assert connection.default_channel.basic_get("listed", no_ack=True).payload == 1


def test_processes_share_one_client_for_all_their_connections(url: str) -> None:
    with Connection(url) as one, Connection(url) as other:
        assert one.connect().link is other.connect().link
    with Connection(url) as third:
        assert third.connect().link is not None


def test_a_forked_child_connects_anew_and_leaves_its_parents_alone(url: str) -> None:
    program = """
        import os, sys
        from kombu import Connection, Consumer, Producer, Queue
        import rocketpipe.integrations.kombu
        queue, taken = Queue("forked"), []
        def take(body, message): taken.append((body, message))
        with Connection(sys.argv[1], transport_options={"visibility_timeout": 3600}) as connection:
            producer = Producer(connection)
            producer.publish("parent", routing_key="forked", declare=[queue])
            with Consumer(connection, [queue], callbacks=[take]):
                while not taken:
                    connection.drain_events(timeout=60)
                child = os.fork()
                if child == 0:
                    assert not connection.connected
                    connection.collect()
                    Producer(connection).publish("child", routing_key="forked")
                    connection.close()
                    os._exit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                while len(taken) < 2:
                    connection.drain_events(timeout=60)
                assert [body for body, _ in taken] == ["parent", "child"], taken
                for _, message in taken:
                    message.ack()
        with Connection(sys.argv[1]) as connection:
            assert connection.default_channel.basic_get("forked") is None
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), url],
        timeout=PATIENCE_S,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_transport_says_what_it_can() -> None:
    assert Transport.implements.asynchronous
    assert Transport.implements.exchange_type == {"direct", "topic", "fanout"}
    with Connection("rocketpipe://localhost//") as connection:
        assert connection.transport.driver_version()
        assert connection.transport.default_port == 9876
