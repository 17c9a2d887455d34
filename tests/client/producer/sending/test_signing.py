"""Signed sends: what the general way signs is what the template's way signs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketpipe.auth.behalf import said_for
from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.signature import verifies
from rocketpipe.client.producer.sending.outgoing import Outgoing, template
from rocketpipe.client.producer.sending.signing import SendSigner
from rocketpipe.model.message import Message
from rocketpipe.protocol.frame import bounds_at, decode_frame

ALICE = Credentials("alice", Secret("s3cret-alice-key"))
SAYING = replace(ALICE, said=said_for("alice", "10.0.0.7", Secret("the-secret-of-servers")))


@pytest.mark.parametrize("who", [ALICE, SAYING])
@pytest.mark.parametrize("oneway", [True, False])
@pytest.mark.parametrize("batch", [True, False])
def test_a_signed_send_is_the_unsigned_one_with_a_good_signature(
    batch: bool, oneway: bool, who: Credentials
) -> None:
    message = Message("t", b"hello", tags="päid", keys=("k-1",), flag=-3)
    out = Outgoing(message, "ID1", 1_700_000_000_000, 1 << 20)
    if batch:
        out = Outgoing.batch_of([out, out], "ID2", 1_700_000_000_001)
    header = template("gröup", "t", 'b"1', 5)
    plain = out.frame(header, 7, 3, oneway=oneway)
    signer = SendSigner(who, "gröup", "t", 'b"1', 5)
    frame = signer.frame(out, header, 7, 3, oneway=oneway)
    bounds, before = bounds_at(frame, 0, len(frame)), bounds_at(plain, 0, len(plain))
    assert bounds is not None
    assert before is not None
    command, unsigned = decode_frame(frame, bounds), decode_frame(plain, before)
    assert verifies(ALICE.key, command.fields, command.body, command.version)
    rest = {name: text for name, text in command.fields.items() if len(name) == 1}
    assert rest == unsigned.fields
    assert command.fields.keys() - rest.keys() == {"AccessKey", "Signature", *dict(who.said)}
    assert (command.code, command.flag, command.body) == (
        unsigned.code,
        unsigned.flag,
        unsigned.body,
    )
