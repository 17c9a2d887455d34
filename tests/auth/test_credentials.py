"""Who this side is."""

from __future__ import annotations

import pickle

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.signature import verifies
from rocketpipe.protocol.command import Command

ALICE = Credentials("alice", Secret("s3cret-alice-key"))


def test_a_request_is_signed_over_its_fields_and_body() -> None:
    command = Command(code=10, opaque=1, fields={"topic": "t"}, body=b"x")
    signed = ALICE.sign(command)
    assert signed.fields["AccessKey"] == "alice"
    assert verifies(ALICE.key, signed.fields, b"x", signed.version)
    assert (signed.code, signed.opaque, signed.body) == (10, 1, b"x")


def test_credentials_travel_and_do_not_show() -> None:
    assert ALICE.key is ALICE.key
    copy = pickle.loads(pickle.dumps(ALICE))
    assert copy == ALICE
    assert (
        copy.sign(Command(code=1, opaque=1)).fields == ALICE.sign(Command(code=1, opaque=1)).fields
    )
    assert "s3cret" not in repr(ALICE)
