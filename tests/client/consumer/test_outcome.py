from __future__ import annotations

import pytest

from rocketpipe.client.consumer.outcome import DEAD_LETTER, Outcome, Retry


@pytest.mark.parametrize("said", [None, True, 7, "fine"])
def test_whatever_else_a_handler_returns_means_done(said: object) -> None:
    assert Outcome.of(said, 3) == Outcome(3)


def test_false_and_whatever_is_raised_mean_again() -> None:
    assert Outcome.of(False, 3).done == 0
    assert (Outcome.of(DEAD_LETTER, 3).done, Outcome.of(DEAD_LETTER, 3).delay_level) == (0, -1)
    failed = Outcome.of(KeyError("id"), 3)
    assert failed.done == 0
    assert isinstance(failed.error, KeyError)
    assert failed.reason == "KeyError: 'id'"


def test_a_retry_says_when_and_from_where() -> None:
    outcome = Outcome.of(Retry("rates missing", delay_level=5, pause_ms=70, done=2), 3)
    assert outcome == Outcome(2, 5, 70, reason="rates missing")
    assert Outcome.of(Retry(done=9), 3).done == 3


def test_a_retry_may_ask_for_the_dead_letters() -> None:
    assert Outcome.of(Retry(delay_level=DEAD_LETTER), 1).delay_level == -1


@pytest.mark.parametrize("wrong", [{"delay_level": -2}, {"delay_level": 19}, {"done": -1}])
def test_a_retry_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        Retry(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        Retry(pause_ms=-1)
