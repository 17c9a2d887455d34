"""Addresses as RocketMQ 4.9 writes them."""

from __future__ import annotations

import pytest

from rocketpipe.auth.plain.addresses import read_addresses


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("10.1.2.3", ("10.1.2.3",)),
        ("10.1.2.3, 10.1.2.4", ("10.1.2.3", "10.1.2.4")),
        ("10.1.2.{3,4}", ("10.1.2.3", "10.1.2.4")),
        ("10.1.2.4-6", ("10.1.2.4/31", "10.1.2.6")),
        ("10.1.2.7-7", ("10.1.2.7",)),
        ("10.1.2.*", ("10.1.2.0/24",)),
        ("10.1.*.*", ("10.1.0.0/16",)),
        ("10.1.*", ("10.1.0.0/16",)),
        ("2001:db8:*", ("2001:db8::/32",)),
        ("2001:db8::1", ("2001:db8::1",)),
    ],
)
def test_they_become_addresses_and_networks(text: str, found: tuple[str, ...]) -> None:
    assert read_addresses(text) == found


@pytest.mark.parametrize("text", ["*", "*.*.*.*", "*:*:*:*:*:*:*:*", "10.1.2.3,*"])
def test_everybody_is_none(text: str) -> None:
    assert read_addresses(text) is None


@pytest.mark.parametrize(
    "text",
    ["10.1.2", "10.1.2.300", "*.1.2.3", "10.*.2.3", "host", "10.1.2.9-3", "10.1.2.3-300", "::*"],
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        read_addresses(text)
