"""The last bytes that a leader's log and this one are said to share, compared before more is taken.

    this log  ├──────────────────────┼─ compared ─┤
    leader    ├──────────────────────┼─ compared ─┼─ taken in ──▶

Epochs say who led, not of which log: two masters that never met both began with epoch 1 at 0. And
masters that know no epochs say nothing at all. So a follower asks for a little of what it has.
"""

from __future__ import annotations

from typing import Final

from rocketpipe.broker.replication.following.agreement import NothingInCommon
from rocketpipe.broker.replication.frames import HaProtocolError, Transfer
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.message_store import MessageStore

#: Enough for the end of any record, which has its id and its checksum there.
COMPARED_BYTES: Final = 64 << 10


class Overlap:
    """Bytes of this log from ``start`` to ``end``, as the leader is to send them."""

    def __init__(self, store: MessageStore, end: int, *, one_file: bool) -> None:
        """``one_file``: not before the file in which the next byte is.

        Masters of Apache's never answer who asks for what retention took, and take 0 for a log that
        is empty.
        """
        begins = int(store.first_offset)
        if one_file:
            begins = max(begins, end - end % store.commit_log.segment_bytes, min(end, 1))
        self.start = max(begins, end - COMPARED_BYTES)
        self.end = end
        self._own = _read(store, self.start, end)
        #: Where the next bytes are from; None before the leader said where it begins.
        self._next: int | None = None

    def compare(self, transfer: Transfer) -> Transfer | None:
        """See that bytes are the same; gives what is behind them, None if more is to be compared.

        Raises:
            NothingInCommon: They are not.
            HaProtocolError: They are from elsewhere.
        """
        at, data = transfer.offset, transfer.data
        if self._next is None and at > self.end:
            return transfer  # the leader's log begins there
        if at != self._next and (self._next is not None or at < self.start):
            wanted = self.start if self._next is None else self._next
            raise HaProtocolError(f"bytes from {at} where {wanted} is next")
        shared = min(len(data), self.end - at)
        own = self._own[at - self.start : at - self.start + shared]
        if own != data[:shared]:
            raise NothingInCommon(f"they differ before {at + shared}, where both have bytes")
        self._next = at + shared
        if self._next < self.end:
            return None
        return Transfer(
            self.end, data[shared:], transfer.epoch, transfer.epoch_start, transfer.confirmed
        )


def _read(store: MessageStore, start: int, end: int) -> bytes:
    parts, at = [], start
    while at < end:
        part = store.raw_at(LogOffset(at), end - at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)
