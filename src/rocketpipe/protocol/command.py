"""What one frame says, before anyone knows which request it is.

``flag`` has two bits: 1 marks a response, 2 a request that wants no answer. ``opaque`` is chosen
by whoever asks and repeated in the answer; answers come in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from rocketpipe.protocol.codes import OUR_VERSION, Language

RESPONSE: Final = 1
ONEWAY: Final = 2

#: A refusal may quote what it refuses, which is as long as its sender likes.
MAX_REMARK: Final = 1024


class HeaderKind(IntEnum):
    """How a frame's header is written: the high byte of its header word."""

    JSON = 0
    BINARY = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One request or response, its header fields still text."""

    code: int
    opaque: int
    flag: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    remark: str | None = None
    body: bytes = b""
    #: None when a peer names a language that we do not know.
    language: Language | None = Language.PYTHON
    version: int = OUR_VERSION
    header: HeaderKind = HeaderKind.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY)


#: Gives a request as it leaves: with a signature.
Sign = Callable[[Command], Command]


def refusal(request: Command, code: int, remark: str) -> Command:
    """The answer that says no, in the header form the peer spoke."""
    if len(remark) > MAX_REMARK:
        remark = remark[:MAX_REMARK] + "…"
    return Command(
        code=code, opaque=request.opaque, flag=RESPONSE, remark=remark, header=request.header
    )
