"""Tests of what a feature is."""

from __future__ import annotations

from rocketpipe.broker.core import Feature


def test_a_wing_adds_nothing_that_it_does_not_name() -> None:
    feature = Feature()
    assert (feature.handlers, dict(feature.loops), feature.on_close) == ((), {}, None)
