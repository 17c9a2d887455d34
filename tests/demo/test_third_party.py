"""A guest in a group: what it got counts, and its absence is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from demo.third_party import NoGuest, SmallCarriers

from demo import third_party


class Heard:
    def __init__(self, *bodies: bytes) -> None:
        self.got = [type("Received", (), {"body": body}) for body in bodies]

    def received(self, consumer: str) -> list[object]:
        assert consumer == third_party.CONSUMER
        return list(self.got)


def test_what_the_guest_got_counts_for_the_group_and_for_itself() -> None:
    small = SmallCarriers(5)
    small.tally.add(0)
    small._hear(Heard(b'{"id": 0}', b'{"id": 1}'))  # type: ignore[arg-type]
    small._hear(Heard(b'{"id": 0}', b'{"id": 1}', b'{"id": 4}'))  # type: ignore[arg-type]
    assert small.guests.found == 3
    assert (small.tally.found, small.tally.again) == (3, 1)


async def test_without_a_guest_the_reason_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(scratch: Path, name_server: str = "") -> None:
        raise NoGuest("ali-ons: no Node.js")

    monkeypatch.setattr(third_party, "invite", refuse)
    small = SmallCarriers(5)
    await small.host(tmp_path, "n:1", "flights", lambda: True)
    assert small.trouble == "ali-ons: no Node.js"
    assert small.guest_name == ""


def test_where_the_tests_are_not_there_is_no_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tests.compat.clients", None)
    monkeypatch.setitem(sys.modules, "tests.compat.clients.catalog", None)
    with pytest.raises(NoGuest, match="part of the tests"):
        third_party.invite(tmp_path)
