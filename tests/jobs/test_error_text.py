"""Kinds of errors."""

from __future__ import annotations

import pytest

from rocketpipe.jobs.error_text import LONGEST, UNKNOWN, kind_of_error


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("failed attempts: 3 of 3", "failed attempts: 16 of 16"),
        ("city 'Oslo' is unknown", "city 'Lima' is unknown"),
        ("no route to 10.0.0.1:8080", "no route to 192.168.7.12:443"),
        (
            "order 0x1f not found at 2026-05-01T12:00:00Z",
            "order 0xff not found at 2027-01-02 03:04",
        ),
        (
            "id 6f1c2f3a-0000-4000-8000-123456789abc taken",
            "id 00000000-1111-4222-8333-abcdefabcdef taken",
        ),
        ("cannot read /var/data/a.json", "cannot read /tmp/b"),
        ("took 1.5 s\nat line 3", "took 20 s\n  at line 99"),
        ("message C0000202436984F9C1845213A96700B5", "message AC11000156789ABCDEF0123456789A01"),
    ],
)
def test_errors_that_differ_in_detail_are_of_one_kind(one: str, other: str) -> None:
    assert kind_of_error(one) == kind_of_error(other)


def test_errors_of_other_words_are_of_other_kinds() -> None:
    assert kind_of_error("timeout") != kind_of_error("refused")
    assert kind_of_error("failed attempts: 3 of 3") == "failed attempts: <n> of <n>"
    assert kind_of_error("utf8 of queue-1") == "utf8 of queue-<n>"


@pytest.mark.parametrize("text", [None, "", " \n \n"])
def test_no_text_is_a_kind_of_its_own(text: str | None) -> None:
    assert kind_of_error(text) == UNKNOWN


def test_a_kind_is_short_however_long_the_text_is() -> None:
    assert len(kind_of_error("x " * 1_000_000)) <= LONGEST
