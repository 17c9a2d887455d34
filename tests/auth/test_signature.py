"""Signatures against what Apache's own classes and other languages computed."""

from __future__ import annotations

import hmac
import random

import pytest

from rocketpipe.auth.secret import Secret
from rocketpipe.auth.signature import (
    SigningKey,
    content_of,
    contents,
    sign_date,
    signed,
    verifies,
)
from rocketpipe.protocol.codes import PeerVersion

KEY = SigningKey(Secret("s3cret-alice-key"))
BODY = "hello wörld".encode()
SEND = {
    **dict(
        zip("abcdefgh", "pg orders TBW102 8 3 0 1700000000000 0".split(), strict=True)  # noqa: SIM905
    ),
    "i": "KEYS\x01k-1\x02TAGS\x01päid\x02",
    "j": "0",
    "k": "false",
    "l": "0",
    "m": "false",
}
QUERY = {
    "topic": "orders",
    "key": "k-1",
    "maxNum": "32",
    "beginTimestamp": "0",
    "endTimestamp": "1700000000000",
    "_UNIQUE_KEY_QUERY": "true",
}
NOW = int(PeerVersion.V5_3_1)


def of(fields: dict[str, str], body: bytes = b"") -> str:
    return signed(fields, body, "alice", KEY)["Signature"]


@pytest.mark.parametrize(
    ("fields", "body", "signature"),
    [
        (SEND, BODY, "iiCObw12E3hERPnhAHNjPy0jong="),
        (SEND | {"SecurityToken": "sts-token-1"}, BODY, "dSLDtrXIPzXamMznSJfTwjySz4s="),
        ({}, b"", "c0i0dHmtXDaU6Lsp0G6PJGLTt1c="),
        (QUERY, b"", "ewiVAsDm3ttiKAGl+jwn7e3hX2Q="),
        (SEND | {"OnsChannel": "ALIYUN"}, BODY, "AAj5gpifADY0TyydkKjk2SPGpig="),
    ],
)
def test_requests_are_signed_as_apaches_hook_signs_them(
    fields: dict[str, str], body: bytes, signature: str
) -> None:
    assert of(fields, body) == signature
    assert verifies(KEY, signed(fields, body, "alice", KEY), body, NOW)


def test_the_content_is_the_values_in_the_order_of_their_names() -> None:
    content = content_of(SEND | {"AccessKey": "alice"}) + BODY
    assert content.hex() == (
        "616c69636570676f726465727354425731303238333031373030303030303030303030304b455953016b2d31"
        "02544147530170c3a46964023066616c73653066616c736568656c6c6f2077c3b6726c64"
    )


def test_a_mark_of_queries_is_left_out_for_peers_of_before_4_9_4() -> None:
    fields = QUERY | {"AccessKey": "alice", "Signature": "k/hmMde5TyfqO8vJKxBXOsy8hMY="}
    assert verifies(KEY, fields, b"", PeerVersion.V4_9_3)
    assert not verifies(KEY, fields, b"", NOW)


def test_go_transmits_a_token_that_it_does_not_sign() -> None:
    fields = SEND | {"AccessKey": "alice", "Signature": of(SEND, BODY), "SecurityToken": "sts-1"}
    assert verifies(KEY, fields, BODY, NOW)
    assert len(contents(fields, NOW)) == 2


def test_a_call_of_grpc_is_signed_by_its_date() -> None:
    assert sign_date(KEY, "20231114T221320Z") == "75526f500279a24174a8ec2db2771174a69f512f"


def test_names_are_in_the_order_of_utf_16() -> None:
    # U+1F600 is two halves from D83D on in UTF-16, so it is before U+FF5E.
    fields = {"～": "1", "😀": "2", "Z": "3", "_": "4", "a": "5"}
    assert content_of(fields) == b"34521"


def test_half_a_surrogate_pair_is_a_question_mark() -> None:
    assert content_of({"a": "x\ud800y"}) == b"x?y"


def test_any_secret_and_content_give_what_hmac_gives() -> None:
    chance = random.Random(7)
    for length in (1, 16, 63, 64, 65, 200):
        secret = "".join(chance.choices("abcXYZ0ä", k=length))
        parts = [chance.randbytes(chance.randrange(300)) for _ in range(3)]
        expected = hmac.digest(secret.encode(), b"".join(parts), "sha1")
        assert SigningKey(Secret(secret)).digest(*parts) == expected


@pytest.mark.parametrize("change", ["value", "body", "key", "signature", "more"])
def test_a_change_of_anything_is_noticed(change: str) -> None:
    fields, body, key = signed(SEND, BODY, "alice", KEY), BODY, KEY
    match change:
        case "value":
            fields["b"] = "orderz"
        case "body":
            body = body[:-1] + b"D"
        case "key":
            key = SigningKey(Secret("s3cret-alice-kez"))
        case "signature":
            fields["Signature"] = "j" + fields["Signature"][1:]
        case "more":
            fields["bname"] = "x"
    assert not verifies(key, fields, body, NOW)


def test_what_is_signed_already_is_signed_anew() -> None:
    assert signed(signed(SEND, BODY, "alice", KEY), BODY, "alice", KEY)["Signature"] == of(
        SEND, BODY
    )


def test_bytes_that_move_between_fields_are_not_noticed() -> None:
    """What no client of RocketMQ can prevent, and the security model tells of: TLS does."""
    assert of({"a": "pg", "b": "orders"}) == of({"a": "pgo", "b": "rders"})


def test_a_key_shows_nothing_of_its_secret() -> None:
    assert "s3cret" not in repr(KEY)
