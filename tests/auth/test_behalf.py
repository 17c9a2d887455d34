"""Who says where a person is, and who can prove it; what comes of it is in ``test_gate.py``."""

from __future__ import annotations

import pytest

from rocketpipe.auth.behalf import FROM_ADDRESS, FROM_SEAL, is_sealed, said_for
from rocketpipe.auth.secret import Secret

SERVERS = Secret("the-secret-of-servers")


def test_without_the_servers_secret_nothing_is_proven() -> None:
    assert said_for("ann", "10.0.0.7", None) == ((FROM_ADDRESS, "10.0.0.7"),)
    fields = dict(said_for("ann", "10.0.0.7", SERVERS))
    assert list(fields) == sorted(fields), "they are signed in the order of their names"
    assert is_sealed(fields, "ann", SERVERS)
    assert not is_sealed(fields, "ann", None)


@pytest.mark.parametrize(
    ("user", "other"),
    [
        ("bob", {}),
        ("ann", {FROM_ADDRESS: "10.0.0.8"}),
        ("ann", {FROM_SEAL: ""}),
        ("ann", {FROM_SEAL: "\ud800" * 64}),
        ("ann\x0010.0.0.7", {FROM_ADDRESS: ""}),
    ],
)
def test_a_seal_is_of_one_user_at_one_place(user: str, other: dict[str, str]) -> None:
    fields = dict(said_for("ann", "10.0.0.7", SERVERS)) | other
    assert not is_sealed(fields, user, SERVERS)
    assert not is_sealed(dict(said_for("ann", "10.0.0.7", Secret("another"))), "ann", SERVERS)
