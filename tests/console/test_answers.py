"""Numbers that may be unknown, and errors as who asked gets them."""

from __future__ import annotations

import json

import pytest

from rocketpipe.client.admin.fleet import NoBroker, PartlyDone
from rocketpipe.client.admin.topics import TopicExists
from rocketpipe.console.answers import Figure, Problem, known, total, unknown
from rocketpipe.errors import AccessDenied, ConnectionLost, InvalidName, NoRoute, RequestRejected


def test_a_sum_with_an_unknown_part_is_at_least_the_rest() -> None:
    assert total([known(1), known(2)]) == Figure(3)
    assert total([]) == Figure(0)
    partly = total([known(1), unknown("b is down"), unknown("b is down")])
    assert (partly.value, partly.unknown, partly.at_least) == (1, "b is down", True)
    assert total([unknown("down")]) == Figure(unknown="down")


def test_none_is_unknown_and_never_zero() -> None:
    assert known(None) == Figure(unknown="there is none")
    assert known(0) == Figure(0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoRoute("t", "a:1", "create it"), 404),
        (NoBroker("no broker", "start one"), 404),
        (TopicExists("t", ["a"]), 409),
        (InvalidName("topic", "a b", "no"), 400),
        (ValueError("no"), 400),
        (AccessDenied(16, "User:a is not let in: no."), 403),
        (RequestRejected(1, "no"), 422),
        (ConnectionLost("a:1", "refused"), 502),
        (PartlyDone(["a"], {"b": RequestRejected(1, "no")}), 502),
    ],
)
def test_every_error_has_a_status_a_cause_and_a_next_step(error: Exception, status: int) -> None:
    answer = Problem.of(error).response()
    body = json.loads(bytes(answer.body))["error"]
    assert answer.status_code == body["status"] == status
    assert body["cause"]
    assert body["next"]


def test_a_problem_stays_the_one_it_is() -> None:
    problem = Problem(418, "a", "b", {"Retry-After": "1"})
    assert Problem.of(problem) is problem
    assert problem.response().headers["retry-after"] == "1"
