"""What is signed of a frame, in Python and compiled."""

from __future__ import annotations

import hmac
import random
from base64 import b64encode
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.twins import compiled_functions

from rocketpipe import compiled
from rocketpipe.auth import frames
from rocketpipe.auth.frames import Signed
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.signature import content_of

Read = Callable[[bytes, int, int], Signed | None]
FIELDS = {
    "AccessKey": "alice",
    "Signature": "iiCObw12E3hERPnhAHNjPy0jong=",
    "a": "pg",
    "b": "orders",
    "i": "KEYS\x01k-1\x02TAGS\x01a\x02",
    "e": "0",
}
PULL = {
    "AccessKey": "alice",
    "Signature": "iiCObw12E3hERPnhAHNjPy0jong=",
    "consumerGroup": "g",
    "topic": "orders",
}


TWIN = "rocketpipe.auth._frames"


@pytest.fixture(params=["python", "compiled"])
def read_signed(request: pytest.FixtureRequest) -> Read:
    if request.param == "compiled":
        return compiled_functions(TWIN)["read_signed"][0]
    found = compiled.load(TWIN)
    python: Read = frames.read_signed if isinstance(found, str) else found.pure["read_signed"]
    return python


def frame(header: bytes, kind: int = 0) -> tuple[bytes, int, int, int]:
    data = (len(header) + 4).to_bytes(4, "big") + bytes([kind]) + len(header).to_bytes(3, "big")
    at = 6 + 8 + len(header)
    return b"before" + data + header + b"body" + b"behind", 6, at, at + 4


def header(fields: object, code: object = 310, **rest: object) -> bytes:
    whole = {"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7, **rest}
    return msgspec.json.encode(whole)


def test_a_signed_send_is_read(read_signed: Read) -> None:
    expected = (
        310,
        "alice",
        FIELDS["Signature"].encode(),
        content_of(FIELDS) + b"body",
        "orders",
        "",
    )
    assert read_signed(*frame(header(FIELDS))) == expected


def test_a_signed_pull_is_read(read_signed: Read) -> None:
    for code in (11, 361, 200051):
        found = read_signed(*frame(header(PULL, code)))
        assert found is not None
        assert (found[0], found[4:]) == (code, ("orders", "g"))


@pytest.mark.parametrize(
    "text",
    [
        header(FIELDS, 25),
        header(FIELDS, "310"),
        header(FIELDS | {"SecurityToken": "x"}),
        header(FIELDS | {"_UNIQUE_KEY_QUERY": "true"}),
        header(FIELDS | {"e": 0}),
        header(FIELDS | {"b": ""}),
        header(FIELDS | {"i": "päid"}),
        header(FIELDS | {"ä": "x"}),
        header({name: text for name, text in FIELDS.items() if name != "b"}),
        header(FIELDS | {"Signature": "short"}),
        header(FIELDS | {"AccessKey": ""}),
        header(FIELDS | {f"x{number}": "" for number in range(40)}),
        header(None),
        header([]),
        b"",
        b"{",
        b"[1]",
        b'{"code":310,"extFields":{"a":"b"}',
        header(FIELDS).replace(b'"a":', b'"b":"other","a":'),
        header(FIELDS).replace(b'"flag":0', b'"extFields":{},"flag":0'),
        header(FIELDS).replace(b'"a":', b'"\\u0062":"other","a":'),
        header(FIELDS).replace(b"orders", b"ord\\ud800"),
        header(FIELDS).replace(b"orders", b"ord\\x"),
        header(FIELDS).replace(b"orders", b"ord\\u00"),
        header(FIELDS) + b"x",
        header(FIELDS | {"i": "x" * 5000}),
    ],
)
def test_whatever_is_unusual_is_left_alone(read_signed: Read, text: bytes) -> None:
    assert read_signed(*frame(text)) is None


def test_a_binary_header_is_left_alone(read_signed: Read) -> None:
    assert read_signed(*frame(header(FIELDS), kind=1)) is None


def test_escapes_are_what_json_says(read_signed: Read) -> None:
    odd = 'q"u\\o/t\b\f\n\r\t\x01\x7f'
    found = read_signed(*frame(header(FIELDS | {"i": odd})))
    assert found is not None
    assert found[3] == content_of(FIELDS | {"i": odd}) + b"body"


def test_both_forms_agree_on_whatever_comes() -> None:
    fast, python = compiled_functions(TWIN)["read_signed"]
    chance = random.Random(20)
    base = header(FIELDS | {"OnsChannel": "A", "ReqT": "", "n": "broker-a"}, version=475)
    for _ in range(3000):
        text = bytearray(base)
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(text))
            match chance.randrange(3):
                case 0:
                    text[at] = chance.choice(b'{}[]",:\\u01 abAS\x00\xff')
                case 1:
                    del text[at : at + chance.randrange(8)]
                case 2:
                    text[at:at] = text[at : at + chance.randrange(20)]
        whole = frame(bytes(text))
        assert fast(*whole) == python(*whole), bytes(text)


def signature(secret: str, content: bytes) -> bytes:
    return b64encode(hmac.digest(secret.encode(), content, "sha1"))


@pytest.fixture(params=["python", "instructions", "hashlib"])
def make_signer(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """The class in Python, and the compiled one with either way to hash."""
    fast, python = compiled_functions(TWIN)["Signer"]

    def make(secret: str, **facts: Any) -> Any:
        rest = {"lets_in": True, "does_all": True} | facts
        signer = (python if request.param == "python" else fast)(Secret(secret), **rest)
        if request.param == "hashlib":
            signer.is_quick = False
        elif request.param == "instructions" and not signer.is_quick:
            pytest.skip("this processor has no instructions for SHA-1")
        return signer

    return make


def test_a_signature_is_the_one_of_all_that_is_signed(make_signer: Callable[..., Any]) -> None:
    """Of every length around the blocks of the hash, and keys shorter and longer than one."""
    chance = random.Random(7)
    for secret in ("k" * 16, "k" * 64, "k" * 65, "ä" * 500):
        signer = make_signer(secret)
        for length in (*range(200), 1023, 1024, 4096, 16_383, 16_384, 100_000):
            content = chance.randbytes(length)
            good = signature(secret, content)
            assert signer.made(good, content, None), (secret, length)
            at = chance.randrange(28)
            other = bytes([good[at] ^ (1 << chance.randrange(7))])
            assert not signer.made(good[:at] + other + good[at + 1 :], content, None)
            assert not signer.made(good, content + b"x", None)
    assert not signer.made(good[:-1], content, None)
    assert repr(signer) == "******"


@pytest.mark.parametrize("size", [*range(130), 1024, 16_384, 70_000])
def test_header_and_body_are_hashed_as_one(make_signer: Callable[..., Any], size: int) -> None:
    body = random.Random(size).randbytes(size)
    signer = make_signer("a-secret-of-alice")
    content = content_of(FIELDS) + body
    text = header(FIELDS | {"Signature": signature("a-secret-of-alice", content).decode()})
    data, at, start, _ = frame(text)
    data = data[:start] + body + b"behind"
    gate = SimpleNamespace(signers={"alice": signer})
    visit = SimpleNamespace(grants=set())
    fast, python = compiled_functions(TWIN)["clear_run"]
    # The compiled one knows signers of its own kind alone.
    runs = [python] if type(signer).__module__ == frames.__name__ else [python, fast]
    for run in runs:
        assert run(data, [(at, start, start + size)], 0, True, gate, visit) == 1
        assert run(data, [(at, start, start + size + 1)], 0, True, gate, visit) == 0
        assert run(data, [(at, start, start + size)], 0, False, gate, visit) == 1


def test_a_secret_of_before_is_good_until_its_time(make_signer: Callable[..., Any]) -> None:
    old = Secret("the-secret-of-before")
    signer = make_signer("the-secret-of-now", old=old, old_until_ms=1000)
    for secret, now_ms, is_good in (
        ("the-secret-of-now", 5000, True),
        ("the-secret-of-before", 999, True),
        ("the-secret-of-before", 1000, False),
        ("another", 1, False),
    ):
        gate = SimpleNamespace(is_before=lambda moment_ms, now_ms=now_ms: now_ms < moment_ms)
        assert signer.made(signature(secret, b"content"), b"content", gate) is is_good
