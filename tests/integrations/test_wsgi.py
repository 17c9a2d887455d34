"""Clients of programs that fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.blocking import Admin, Producer, ReceivedMessage, Session, SimpleConsumer
from rocketpipe.errors import ProcessForked
from rocketpipe.integrations.wsgi import Messaging
from rocketpipe.testing import kit

NOWHERE = "127.0.0.1:1"


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked child, whose exit status says whether it failed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_brokers_may_be_away_and_nothing_is_left_after_a_close() -> None:
    messaging = Messaging(NOWHERE)
    readiness = messaging.readiness()
    assert not readiness
    assert "no NameServer answers" in readiness.reason
    messaging.start()
    messaging.start()  # once more does no harm
    with pytest.raises(ValueError, match="before they are started"):
        messaging.consumer(group="late")
    messaging.close()
    messaging.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("rocketpipe")]
    with pytest.raises(ValueError, match="NameServer"):
        Messaging("")


def test_a_consumer_that_cannot_be_ends_the_start_and_leaves_nothing_open() -> None:
    messaging = Messaging(NOWHERE)
    messaging.consumer(group="billing")
    with pytest.raises(ValueError, match="'billing' has no handler"):
        messaging.start()
    assert not [each for each in threading.enumerate() if each.name.startswith("rocketpipe")]


def test_a_producer_that_cannot_be_made_leaves_nothing_open_however_often_it_is_asked_for() -> None:
    def fails(session: Session) -> Producer:
        return Producer(session, timeout_ms=-1)

    messaging = Messaging(NOWHERE, producer=fails)
    for _ in range(3):
        with pytest.raises(ValueError, match="timeout_ms"):
            _ = messaging.producer
    messaging.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("rocketpipe")]


@pytest.mark.scenario
def test_each_process_has_its_own_whether_the_one_above_had_any_or_not(tmp_path: Path) -> None:
    with kit(tmp_path) as servers:
        with Admin(servers.name_server) as admin:
            admin.topics.create("orders", queues=1)
        messaging = Messaging(servers.name_server)
        billing = messaging.consumer(group="billing", start="first")
        done = threading.Event()

        @billing.on("orders")
        def bill(message: ReceivedMessage) -> None:
            messaging.producer.send("invoices", message.body)
            done.set()

        def work() -> None:
            messaging.start()
            messaging.producer.send("orders", b"of %d" % os.getpid())
            assert done.wait(60)
            messaging.close()

        assert in_child(work) == 0  # nothing was opened before
        messaging.producer.send("orders", b"of the parent")
        assert in_child(work) == 0  # the parent has a producer
        messaging.start()

        def started_above() -> None:
            with pytest.raises(ProcessForked, match="after the fork"):
                messaging.start()
            messaging.producer.send("orders", b"sent all the same")
            messaging.close()

        assert in_child(started_above) == 0
        assert messaging.producer.send("orders", b"the last").message_id  # is not closed by them
        messaging.close()
        with SimpleConsumer(servers.name_server, group="auditor") as auditor:
            auditor.subscribe("invoices")
            assert auditor.receive()
