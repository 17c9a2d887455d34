"""What a client is called."""

from __future__ import annotations

import os
import re
import socket

import pytest

from rocketpipe.client import identity
from rocketpipe.client.identity import Identity, own_address
from rocketpipe.errors import InvalidName
from rocketpipe.model.ids import UniqueKey

NOW_MS = 1_700_000_000_000


def test_the_id_has_address_process_and_time() -> None:
    found = re.fullmatch(r"([0-9a-f.:]+)@(\d+)#\d+", Identity.of_this_process().client_id)
    assert found is not None
    assert found.group(1) == str(own_address())
    assert found.group(2) == str(os.getpid())


def test_instance_and_unit_are_put_where_java_clients_put_them() -> None:
    named = Identity.of_this_process("DEFAULT", "unit1")
    assert named.client_id == f"{own_address()}@DEFAULT@unit1"


def test_no_two_clients_of_a_process_share_an_id_or_a_key() -> None:
    made = [Identity.of_this_process() for _ in range(100)]
    assert len({each.client_id for each in made}) == 100
    same_name = [Identity.of_this_process("DEFAULT") for _ in range(100)]
    keys = {each.unique_keys().next(NOW_MS) for each in made + same_name}
    assert len(keys) == 200


def test_a_key_names_its_maker() -> None:
    named = Identity.of_this_process()
    key = UniqueKey.parse(named.unique_keys().next(NOW_MS), NOW_MS + 1)
    assert (key.ip, key.process_id) == (named.ip, os.getpid() & 0xFFFF)


@pytest.mark.parametrize("text", ["", "a@b", "a b", "a\n", "x" * 129])
def test_what_would_blur_an_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="instance"):
        Identity.of_this_process(text)
    with pytest.raises(InvalidName, match="unit"):
        Identity.of_this_process(None, text)


def test_a_machine_without_a_network_has_the_loopback_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> socket.socket:
        raise OSError("no network")

    monkeypatch.setattr(identity.socket, "socket", refuse)
    assert str(own_address()) == "127.0.0.1"
