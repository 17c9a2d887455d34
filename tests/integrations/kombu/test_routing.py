"""Keys and bindings, as AMQP's examples have them."""

from __future__ import annotations

import pytest

from rocketpipe.integrations.kombu.routing import fits


@pytest.mark.parametrize(
    ("bound", "key", "expected"),
    [
        ("*.orange.*", "quick.orange.rabbit", True),
        ("*.orange.*", "lazy.orange", False),
        ("*.*.rabbit", "quick.orange.rabbit", True),
        ("lazy.#", "lazy.brown.fox", True),
        ("lazy.#", "lazy", True),
        ("lazy.#", "lazyfox", False),
        ("#", "", True),
        ("#", "any.thing", True),
        ("#.fox", "fox", True),
        ("#.fox", "a.b.fox", True),
        ("#.fox", "a.bfox", False),
        ("a.#.z", "a.z", True),
        ("a.#.z", "a.b.c.z", True),
        ("a.#.z", "a.bz", False),
        ("a+b", "aab", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_words_and_stars_and_hashes(bound: str, key: str, expected: bool) -> None:
    assert fits("topic", bound, key) is expected


def test_other_kinds() -> None:
    assert fits("direct", "a", "a")
    assert not fits("direct", "#", "a")
    assert fits("fanout", "x", "y")
