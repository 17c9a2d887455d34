"""Secrets that do not show."""

from __future__ import annotations

import logging
import traceback

import pytest

from rocketpipe.auth.secret import HIDDEN, MOST_CHARACTERS, Secret, check_secret


def test_a_secret_shows_nowhere_but_where_it_is_asked_for() -> None:
    secret = Secret("correct-horse-battery")
    texts = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>10}",
        "{}".format(secret),  # noqa: UP032
        f"{[secret]}",
    ]
    try:
        raise ValueError(secret)
    except ValueError:
        texts.append(traceback.format_exc())
    record = logging.LogRecord("x", 20, "x", 1, "%s", (secret,), None)
    texts.append(record.getMessage())
    assert not any("horse" in text for text in texts)
    assert secret.reveal() == "correct-horse-battery"


def test_secrets_are_compared_by_what_they_are() -> None:
    assert Secret("abc") == Secret("abc")
    assert Secret("abc") != Secret("abd")
    assert Secret("abc") != "abc"
    assert len({Secret("abc"), Secret("abc")}) == 1
    assert not Secret("")


def test_a_secret_that_is_made_cannot_be_guessed() -> None:
    made = {Secret.generate().reveal() for _ in range(50)}
    assert len(made) == 50
    assert all(len(text) == 32 for text in made)


@pytest.mark.parametrize(
    "text", ["", HIDDEN, "short", "x" * (MOST_CHARACTERS + 1), "line\nfeed" * 3]
)
def test_what_is_no_secret_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="secret"):
        check_secret(text)


def test_shorter_ones_are_taken_where_they_are_wanted() -> None:
    assert check_secret("12345678", least=7).reveal() == "12345678"
