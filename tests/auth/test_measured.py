"""What is measured of who was let in."""

from __future__ import annotations

from tests.auth.conftest import make_gate

from rocketpipe.auth.measured import families, measure
from rocketpipe.metrics import render


def test_refusals_are_counted_by_reason() -> None:
    gate = make_gate()
    gate.failures.failed("10.0.0.7", "no AccessKey")
    gate.failures.failed("10.0.0.7", "no AccessKey")
    gate.denied = 3
    measure(gate)
    text = render(families())
    assert 'rocketpipe_auth_failures_total{reason="no AccessKey"} 2' in text
    assert "rocketpipe_auth_denied_total 3" in text
    assert f"rocketpipe_auth_users {len(gate.users)}" in text
