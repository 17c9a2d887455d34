"""Blocking sessions: shared by blocking clients, and by no others."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

import rocketpipe
from rocketpipe.blocking import Admin, MessageQueue, Producer, PushConsumer, Session
from rocketpipe.blocking.session import inner_of
from rocketpipe.errors import ConnectionLost, InvalidName, NoRoute, SessionClosed

NOWHERE = "127.0.0.1:1"
QUEUE = MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_session_is_open_inside_its_with_as_often_as_it_was_entered() -> None:
    session = Session(NOWHERE, instance="one")
    assert re.search("@one", session.client_id)
    assert not session.is_open
    with pytest.raises(SessionClosed, match="the session is not open: use it inside its 'with'"):
        session.check_open()
    with session:
        with session:
            session.check_open()
        session.check_open()
        session.beat()
        assert session.is_open
    assert not session.is_open


def test_clients_share_the_session_that_they_are_given() -> None:
    session = Session(NOWHERE)
    with Producer(session), Admin(session):
        assert session.is_open
        with session:
            session.beat()
    assert not session.is_open
    assert PushConsumer(session, group="g").session is session


def test_a_session_may_be_opened_again_on_another_loop() -> None:
    session = Session(NOWHERE)
    for _ in range(2):
        with session, pytest.raises(ConnectionLost):
            session.ends_of(QUEUE)


def test_addresses_come_from_routes_that_are_known() -> None:
    with Session(NOWHERE) as session:
        with pytest.raises(NoRoute, match="orders"):
            session.leader_of(QUEUE)
        with pytest.raises(NoRoute, match="orders"):
            session.reader_of(QUEUE, 1)


def test_who_does_not_answer_costs_no_more_than_the_time_given(silent: str) -> None:
    with (
        Session(silent, timeout_ms=50) as session,
        pytest.raises(ConnectionLost, match="no answer"),
    ):
        session.ends_of(QUEUE)


def test_a_session_for_asyncio_is_refused_by_name() -> None:
    for kind in (Producer, Admin):
        with pytest.raises(TypeError, match=r"not rocketpipe\.client\.session\.Session"):
            kind(rocketpipe.Session(NOWHERE))  # type: ignore[arg-type]
    assert inner_of(NOWHERE) == NOWHERE


def test_names_and_numbers_are_checked_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="timeout_ms"):
        Session(NOWHERE, timeout_ms=0)
    with pytest.raises(InvalidName):
        Session(NOWHERE, unit="a b\n")
