from __future__ import annotations

from rocketpipe.proxy.http2.hpack import HeaderReader
from rocketpipe.proxy.rpc.codes import StatusCode, only_trailers, plain_status, trailers


def read(block: bytes) -> dict[str, str]:
    return dict(HeaderReader(1 << 20).read(block) or ())


def test_a_status_is_in_the_last_headers() -> None:
    assert read(trailers(StatusCode.OK)) == {"grpc-status": "0"}
    said = read(only_trailers(StatusCode.UNIMPLEMENTED, "no: 100 % ä\n"))
    assert said == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-accept-encoding": "identity",
        "grpc-status": "12",
        "grpc-message": "no: 100 %25 %C3%A4%0A",
    }
    assert read(plain_status(415)) == {":status": "415"}


def test_no_text_is_too_long() -> None:
    assert len(read(trailers(StatusCode.INTERNAL, "x" * 10_000))["grpc-message"]) == 1024
