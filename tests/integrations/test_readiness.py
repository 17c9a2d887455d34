"""What a probe is told."""

from __future__ import annotations

from rocketpipe.integrations.readiness import Readiness


def test_a_program_is_ready_while_a_broker_answers() -> None:
    assert Readiness.of(["broker-a"])
    assert not Readiness.of([])
    assert Readiness.of([]).reason == "no broker answers"
    assert Readiness(True) == Readiness.of(["broker-a", "broker-b"])
