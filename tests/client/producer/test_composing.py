"""From what users say to what goes out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from rocketpipe.client.producer.composing import Composer
from rocketpipe.client.producer.sending.outgoing import Checks
from rocketpipe.client.session import Session
from rocketpipe.errors import InvalidName, MessageRefused, SessionClosed, WrongThread
from rocketpipe.model.message import Message
from rocketpipe.testing import ManualClock


def intake(*, is_open: bool = True) -> Composer:
    made = Composer(Checks(max_bytes=100), Session("127.0.0.1:1", clock=ManualClock()))
    if is_open:
        made.open()
    return made


def test_each_message_gets_an_id_and_its_time() -> None:
    here = intake()
    outs = [
        here.take("t", b"x"),
        here.take("t", b"x", {"tags": "a"}),
        here.take(Message("t", b"x")),
    ]
    assert len({out.message_id for out in outs}) == 3
    assert {out.born_ms for out in outs} == {ManualClock().now_ms()}


def test_a_topic_that_was_checked_has_plain_messages_from_then_on() -> None:
    here = intake()
    assert [here.take("t", b"x").plain for _ in range(2)] == [False, True]


def test_whether_plain_or_not_it_is_checked() -> None:
    here = intake()
    for _ in range(2):
        with pytest.raises(MessageRefused, match="101 bytes"):
            here.take("t", bytes(101))
        with pytest.raises(MessageRefused, match="empty"):
            here.take("t")
        with pytest.raises(InvalidName):
            here.take("no topic", b"x")
        here.take("t", b"x")


def test_nothing_is_taken_before_it_opens_or_after_it_closed() -> None:
    here = intake(is_open=False)
    with pytest.raises(SessionClosed, match="the producer"):
        here.take("t", b"x")
    with pytest.raises(SessionClosed):
        here.check_open()
    here.open()
    here.check_open()
    here.close()
    with pytest.raises(SessionClosed):
        here.check_open()


def test_another_thread_is_told_which_client_threads_may_share() -> None:
    here = intake()
    with ThreadPoolExecutor() as pool:
        for refused in (pool.submit(here.take, "t", b"x"), pool.submit(here.check_open)):
            with pytest.raises(WrongThread, match=r"rocketpipe\.blocking"):
                refused.result()
    here.take("t", b"x")
