"""Blocking sends: refused before anything is sent, or with the error of the send itself."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rocketpipe.blocking import Decision, Message, Producer, SendResult
from rocketpipe.blocking.producer import _in_thread
from rocketpipe.errors import ConnectionLost, InvalidName, MessageRefused, SessionClosed
from rocketpipe.record.codec import RecordView

NOWHERE = "127.0.0.1:1"


def test_what_no_broker_takes_is_refused_at_once() -> None:
    with Producer(NOWHERE) as producer:
        with pytest.raises(InvalidName, match="'a b'"):
            producer.send("a b", b"x")
        with pytest.raises(MessageRefused):
            producer.send_batch([Message("a", b"x"), Message("b", b"x")])
    with pytest.raises(SessionClosed, match="the producer"):
        producer.send("orders", b"x")


def test_an_error_shows_where_in_the_client_it_came_from() -> None:
    with Producer(NOWHERE) as producer, pytest.raises(ConnectionLost) as caught:
        producer.send("orders", b"x")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[0].name == "test_an_error_shows_where_in_the_client_it_came_from"
    assert any(frame.filename.endswith("producer/producer.py") for frame in frames)
    assert caught.value.retryable


def test_errors_reach_each_of_many_threads() -> None:
    with Producer(NOWHERE) as producer, ThreadPoolExecutor(8) as threads:
        sending = [threads.submit(producer.send, "orders", b"x") for _ in range(32)]
        for each in sending:
            assert isinstance(each.exception(), ConnectionLost)


def test_a_callback_hears_the_error_and_the_sender_goes_on() -> None:
    told: list[SendResult | Exception] = []
    heard = threading.Event()

    def callback(said: SendResult | Exception) -> None:
        told.append(said)
        heard.set()

    with Producer(NOWHERE) as producer:
        producer.send_async("orders", b"x", callback=callback)
        assert heard.wait(30)
    assert isinstance(told[0], ConnectionLost)


def test_a_callback_that_waits_for_its_own_loop_is_refused_not_stuck() -> None:
    errors: list[BaseException] = []
    heard = threading.Event()

    with Producer(NOWHERE) as producer:

        def callback(said: Any) -> None:
            try:
                producer.send("orders", b"another")
            except Exception as error:
                errors.append(error)
            heard.set()

        producer.send_async("orders", b"x", callback=callback)
        assert heard.wait(30)
    assert "blocking call on the blocking clients' own loop" in str(errors[0])


def test_settings_are_checked_when_it_is_made() -> None:
    assert Producer(NOWHERE, group="payments").group == "payments"
    with pytest.raises(InvalidName):
        Producer(NOWHERE, group="a b")
    with pytest.raises(ValueError, match="timeout_ms"):
        Producer(NOWHERE, timeout_ms=-1)


def test_a_plain_check_is_called_in_a_thread_and_one_for_the_loop_is_not() -> None:
    here = threading.get_ident()
    asked: list[int] = []

    def plain(_: RecordView) -> Decision:
        asked.append(threading.get_ident())
        return Decision.COMMIT

    async def for_the_loop(message: RecordView) -> Decision:
        return plain(message)

    record: Any = None
    in_thread = _in_thread(plain)
    assert in_thread is not None
    decided = in_thread(record)
    assert isinstance(decided, Coroutine)
    assert asyncio.run(decided) is Decision.COMMIT
    assert asked[0] != here
    assert _in_thread(for_the_loop) is for_the_loop
    assert _in_thread(None) is None


def test_a_transaction_needs_an_open_producer() -> None:
    producer = Producer(NOWHERE, group="shop")
    with pytest.raises(SessionClosed):
        producer.transaction("orders", b"x")
    with producer, pytest.raises(ConnectionLost), producer.transaction("orders", b"x"):
        raise AssertionError("never entered")
