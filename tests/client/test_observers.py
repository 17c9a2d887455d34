"""Observers are told in order, and may change what is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from rocketpipe import Message
from rocketpipe.client.observers import (
    Observer,
    Processing,
    Receiving,
    Sending,
    install,
    observed,
    observers_of,
    uninstall,
)


class Noting(Observer):
    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen

    @contextmanager
    def sending(self, what: Sending) -> Iterator[None]:
        self.seen.append(f"{self.name} before")
        what.messages[0] = replace(what.messages[0], properties={"by": self.name})
        try:
            yield
        finally:
            self.seen.append(f"{self.name} after {len(what.results)}")


def test_the_first_is_the_outermost_and_the_last_has_the_last_word() -> None:
    seen: list[str] = []
    what = Sending("client", "group", [Message("orders", b"x")])
    with observed([Noting("a", seen), Noting("b", seen)], what) as sending:
        assert sending.messages[0].properties == {"by": "b"}
        assert sending.topic == "orders"
    assert seen == ["a before", "b before", "b after 0", "a after 0"]


def test_an_error_goes_through_all_of_them() -> None:
    seen: list[str] = []
    what = Sending("client", "group", [Message("orders", b"x")])
    with pytest.raises(ValueError, match="no"), observed([Noting("a", seen)], what):
        raise ValueError("no")
    assert seen == ["a before", "a after 0"]


def test_who_is_not_interested_does_nothing() -> None:
    for what in (Receiving("c", "g"), Processing("c", "g", ())):
        with observed([Observer()], what) as same:
            assert same is what


def test_installed_ones_are_told_of_clients_that_are_made_from_then_on() -> None:
    mine, everywhere = Observer(), Observer()
    install(everywhere)
    try:
        assert observers_of([mine]) == (everywhere, mine)
    finally:
        uninstall(everywhere)
    assert observers_of([mine]) == (mine,)
