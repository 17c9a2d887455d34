"""Tests of what a wing is."""

from __future__ import annotations

from rocketpipe.broker.core import Feature


def test_a_wing_adds_nothing_that_it_does_not_name() -> None:
    wing = Feature()
    assert (wing.handlers, dict(wing.loops), wing.on_close) == ((), {}, None)
