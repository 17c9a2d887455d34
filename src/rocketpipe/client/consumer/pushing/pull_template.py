"""A pull as a frame, where only a few numbers change from one pull of a queue to the next.

``protocol.requests.pulling.PullMessage`` defines what comes out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.frame import HEAD, encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.pulling import PullMessage

#: What stands for a number while a template is made.
_ANY: Final = 7
_NUMBERS: Final = (
    b'"queueOffset":"%d"',
    b'"sysFlag":"%d"',
    b'"commitOffset":"%d"',
    b'"opaque":%d,',
)
_pack: Final = HEAD.pack


class PullTemplate:
    """The pulls of one queue that want the same of it."""

    def __init__(self, request: PullMessage) -> None:
        """Take one of them: all but its offsets and flags is the same for all."""
        self.request = request
        any_offset = QueueOffset(_ANY)
        any_pull = replace(
            request, queue_offset=any_offset, sys_flag=_ANY, commit_offset=any_offset
        )
        frame = encode_frame(to_command(any_pull, _ANY))
        header = frame[HEAD.size :].replace(b"%", b"%%")
        for number in _NUMBERS:
            # A quotation mark inside of a value is escaped, so these are fields and nothing else.
            assert header.count(number % _ANY) == 1
            header = header.replace(number % _ANY, number)
        self._header = header

    def asking(self, offset: int, flags: int, commit: int) -> PullMessage:
        """The request of a pull from ``offset`` on: for who has to sign it."""
        return replace(
            self.request,
            queue_offset=QueueOffset(offset),
            sys_flag=flags,
            commit_offset=QueueOffset(commit),
        )

    def frame(self, offset: int, flags: int, commit: int, opaque: int) -> bytes:
        """The frame of a pull from ``offset`` on."""
        header = self._header % (offset, flags, commit, opaque)
        size = len(header)
        return _pack(size + 4, size) + header
