"""How a call ended, in gRPC's own words, and what is said of it in HTTP/2's headers."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Final, NoReturn

from rocketpipe.errors import RocketPipeError
from rocketpipe.proxy.http2.hpack import Header, written

#: No text says more: it may quote what it refuses.
_MAX_TEXT: Final = 1024
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - {ord("%")}


class StatusCode(IntEnum):
    """gRPC's codes, those that are used here."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class RpcAborted(RocketPipeError):
    """A call that ends with a status of gRPC's own."""

    def __init__(self, code: StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def abort(code: StatusCode, text: str) -> NoReturn:
    """End the call that is served.

    Raises:
        RpcAborted: Always.
    """
    raise RpcAborted(code, text)


#: What every answer begins with.
HEAD: Final = written([(":status", "200"), ("content-type", "application/grpc")])
_ACCEPTS: Final[Header] = ("grpc-accept-encoding", "identity")


@lru_cache(maxsize=64)
def trailers(code: StatusCode, text: str = "") -> bytes:
    """The last headers of an answer."""
    return written(_said(code, text))


def only_trailers(code: StatusCode, text: str) -> bytes:
    """The only headers of an answer that has nothing else."""
    return HEAD + written([_ACCEPTS, *_said(code, text)])


def plain_status(code: int) -> bytes:
    """The only headers of an answer to somebody who does not speak gRPC."""
    return written([(":status", str(code))])


def _said(code: StatusCode, text: str) -> list[Header]:
    said = [("grpc-status", str(int(code)))]
    if text:
        said.append(("grpc-message", _percent(text[:_MAX_TEXT])))
    return said


def _percent(text: str) -> str:
    return "".join(chr(each) if each in _PLAIN else f"%{each:02X}" for each in text.encode())
