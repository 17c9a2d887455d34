"""Counts, times and errors of a run, in bounded memory."""

from __future__ import annotations

import pytest

from rocketpipe.bench.report import MAX_KINDS, OTHERS, Errors, Report, Times


def test_percentiles_are_right_to_two_percent() -> None:
    times = Times()
    for number in range(1, 1001):
        times.add(number * 1_000_000)
    for part, expected_ms in ((0.5, 500), (0.99, 990), (1.0, 1000)):
        found = times.below_ms(part)
        assert found is not None
        assert expected_ms <= found <= expected_ms * 1.02
    assert times.below_ms(1.0) == 1000


def test_nothing_counted_is_no_time() -> None:
    assert Times().below_ms(0.5) is None
    report = Report(messages=0, bytes=0, took_ns=0, times=Times(), errors=Errors())
    facts = report.facts("send")
    assert facts["messages_per_second"] is None
    assert facts["send_p50_ms"] is None


def test_what_took_no_time_counts_as_a_microsecond() -> None:
    times = Times()
    times.add(0)
    assert times.below_ms(0.5) == pytest.approx(0.001)


def test_errors_are_counted_by_kind_up_to_a_limit() -> None:
    errors = Errors()
    for number in range(MAX_KINDS + 3):
        kind = type(f"Kind{number}", (Exception,), {})
        errors.add(kind(f"no {number}"))
    errors.add(type("Kind0", (Exception,), {})("again"))
    assert errors.count == MAX_KINDS + 4
    assert len(errors.kinds) == MAX_KINDS + 1
    assert errors.kinds[OTHERS] == 3
    assert next(iter(errors.kinds.items())) == (OTHERS, 3)
    assert errors.examples["Kind0"] == "no 0"


def test_rates_are_of_a_second() -> None:
    report = Report(
        messages=500, bytes=1_000_000, took_ns=500_000_000, times=Times(), errors=Errors()
    )
    assert report.rate == 1000
    assert report.megabytes == 2
