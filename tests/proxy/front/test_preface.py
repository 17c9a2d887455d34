"""What the first bytes of a connection to the gRPC port tell."""

from __future__ import annotations

import pytest

from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.offsets import GetMinOffset
from rocketpipe.proxy.front.preface import stranger
from rocketpipe.proxy.http2.frames import PREFACE


@pytest.mark.parametrize("behind_tls", [True, False])
def test_a_preface_is_awaited_byte_by_byte_and_may_have_more_behind_it(behind_tls: bool) -> None:
    for end in range(1, len(PREFACE) + 1):
        assert stranger(PREFACE[:end], behind_tls=behind_tls) is None
    assert stranger(PREFACE + b"\0\0\0\4\0\0\0\0\0", behind_tls=behind_tls) is None


@pytest.mark.parametrize(
    ("first", "word"),
    [
        (b"GET /metrics HTTP/1.1\r\n", "http"),
        (b"PUT / HTTP/1.1\r\n", "http"),
        (b"\x16\x03\x01\x02\x00\x01", "tls"),
        (encode_frame(to_command(GetMinOffset(topic="t", queue_id=0), 1)), "remoting"),
        (b"PRI * HTTP/3.0\r\n", "unknown"),
        (b"\xff", "unknown"),
    ],
)
def test_what_is_no_preface_is_known_for_what_it_is(first: bytes, word: str) -> None:
    found = stranger(first, behind_tls=False)
    assert found is not None
    assert found.word == word


def test_who_may_still_become_http_is_waited_for() -> None:
    assert stranger(b"G", behind_tls=False) is None
    assert stranger(b"GE", behind_tls=False) is None


def test_behind_tls_a_handshake_is_nothing_that_is_known() -> None:
    found = stranger(b"\x16\x03\x01", behind_tls=True)
    assert found is not None
    assert (found.word, found.answer) == ("unknown", b"")
