"""What is tried again."""

from __future__ import annotations

import pytest

from rocketpipe.client.producer.retry import Retries
from rocketpipe.errors import (
    CallTimeout,
    ConnectionLost,
    HeaderError,
    LocalProtocolError,
    MessageRefused,
    NoRoute,
    RequestRejected,
    RocketPipeError,
)


@pytest.mark.parametrize(
    "error",
    [
        CallTimeout("a:1", "SendMessage", 5),
        HeaderError("an answer that cannot be read"),
        *(RequestRejected(code, "no") for code in (17, 1, 2, 16, 204, 205, 1500)),
    ],
)
def test_what_another_broker_may_take_is_tried_again_twice(error: RocketPipeError) -> None:
    retries = Retries()
    assert [retries.after_error(error, attempt, 1000) for attempt in (1, 2, 3)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("a:1", "gone"),
        NoRoute("t", "n:1", "no leader"),
        RequestRejected(14, "no longer master"),
        RequestRejected(1, "in-sync replicas not enough: 1 of 2"),
    ],
)
def test_a_leader_is_waited_for_while_there_is_time(error: RocketPipeError) -> None:
    assert Retries().after_error(error, 3, 1)
    assert Retries().after_error(error, 99, 1)
    assert not Retries().after_error(error, 1, 0)


def test_with_one_attempt_nothing_is_sent_again_that_may_be_stored() -> None:
    once = Retries(attempts=1)
    lost, refused = ConnectionLost("a:1", "gone"), RequestRejected(14, "no longer master")
    assert not once.after_error(lost, 1, 1000)
    assert once.after_error(lost, 1, 1000, sent=False)
    assert not once.after_error(refused, 1, 1000)
    assert once.after_error(RequestRejected(14, "not the leader leader=b:1"), 1, 1000)
    assert once.after_error(RequestRejected(14, "its group has no leader now"), 1, 1000)
    assert once.after_error(RequestRejected(1, "in-sync replicas not enough"), 1, 1000)
    assert not once.after_error(RequestRejected(2, "busy"), 1, 1000)


@pytest.mark.parametrize(
    "error",
    [
        *(RequestRejected(code, "no") for code in (13, 29, 26, 3, 215)),
        MessageRefused("t", "empty", "fill it"),
        LocalProtocolError("too wide"),
    ],
)
def test_what_every_broker_would_refuse_is_not(error: RocketPipeError) -> None:
    assert not Retries().after_error(error, 1, 1000)


def test_nothing_is_tried_when_the_time_is_up() -> None:
    assert not Retries().after_error(ConnectionLost("a:1", "gone"), 1, 0)
    assert not Retries(not_durable=True).after_doubt(1, 0)


def test_which_refusals_pass_can_be_said() -> None:
    as_4_9 = Retries(codes=Retries().codes - {2})
    assert not as_4_9.after_error(RequestRejected(2, "busy"), 1, 1000)
    assert as_4_9.after_error(RequestRejected(14, "no"), 1, 1000)
    assert not Retries(codes=frozenset()).after_error(RequestRejected(14, "no"), 1, 1000)


def test_doubtful_results_are_final_unless_asked_for() -> None:
    assert not Retries().after_doubt(1, 1000)
    eager = Retries(not_durable=True, attempts=2)
    assert eager.after_doubt(1, 1000)
    assert not eager.after_doubt(2, 1000)


def test_an_attempt_may_have_less_than_all_the_time_but_for_the_last() -> None:
    assert Retries().time_for(1, 3000) == 3000
    capped = Retries(attempts=2, attempt_timeout_ms=500)
    assert [capped.time_for(1, 3000), capped.time_for(1, 200), capped.time_for(2, 2500)] == [
        500,
        200,
        2500,
    ]


def test_callbacks_hear_of_refusals_at_once() -> None:
    retries = Retries(attempts=5, not_durable=True, attempt_timeout_ms=7).unanswered_only
    assert not retries.after_error(RequestRejected(2, "no"), 1, 1000)
    assert not retries.after_error(RequestRejected(1, "no"), 1, 1000)
    assert retries.after_error(RequestRejected(14, "not the leader"), 1, 1000)
    assert retries.after_error(ConnectionLost("a:1", "gone"), 4, 1000)
    assert retries.after_doubt(1, 1000)
    assert retries.time_for(1, 1000) == 7


@pytest.mark.parametrize("settings", [{"attempts": 0}, {"attempt_timeout_ms": 0}])
def test_numbers_that_make_no_sense_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Retries(**settings)  # type: ignore[arg-type]
