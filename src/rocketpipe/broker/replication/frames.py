"""RocketMQ's two HA dialects as bytes and events; all numbers are big-endian.

    plain     follower   report       end:8
              leader     transfer     offset:8  n:4  n bytes of the log

    epochs    follower   handshake    1:4  from_last_file:2  learner:2  follower_id:8
              leader     hello        1:4  12·k:4  log_end:8  epoch:4  k × (epoch:4  start:8)
              follower   report       2:4  end:8
              leader     transfer     2:4  n:4  offset:8  epoch:4  epoch_start:8  confirmed:8
                                      n bytes of the log

A transfer of no bytes is a heartbeat, and says where the next one begins. Nothing is read or sent
here, and nothing is believed: a length is checked before anything is kept for it. What an offset
may be is for those who have a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Final

from rocketpipe.broker.replication.epochs import MAX_ENTRIES, EpochEntry, check_order
from rocketpipe.errors import RemoteProtocolError

#: No transfer has more; RocketMQ's slaves have room for no more.
MAX_TRANSFER_BYTES: Final = 4 << 20
#: How long a leader waits for the second half of what looks like a handshake.
HANDSHAKE_MS: Final = 1_000
#: Who reads a leader's log and follows nobody says that it is this replica, as a learner.
READER_ID: Final = (1 << 62) - 1

_HANDSHAKE: Final = 1
_TRANSFER: Final = 2

_OFFSET: Final = Struct(">q")
_FIRST: Final = Struct(">ihh")
_HELLO: Final = Struct(">iiqi")
_ENTRY: Final = Struct(">iq")
_REPORT: Final = Struct(">iq")
_PLAIN_HEAD: Final = Struct(">qi")
_EPOCHS_HEAD: Final = Struct(">iiqiqq")


class HaProtocolError(RemoteProtocolError):
    """The other side of an HA connection sent what neither dialect has; it is closed."""


class Dialect(Enum):
    """How the two sides talk: RocketMQ's since ever, or that of its controller mode."""

    PLAIN = "plain"
    EPOCHS = "epochs"


@dataclass(frozen=True, slots=True)
class Handshake:
    """Who a follower is. A learner takes part in no election: an *elected* set never has it."""

    follower_id: int
    from_last_file: bool = False
    learner: bool = False


@dataclass(frozen=True, slots=True)
class LeaderHello:
    """Where a leader's log ends, the epoch it leads in, and who wrote which part of the log."""

    log_end: int
    epoch: int
    entries: tuple[EpochEntry, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """How far a follower has the log."""

    end: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes of the log from ``offset`` on; none in a heartbeat.

    A frame that arrives in pieces is given in pieces, each with its own offset. Epoch and start
    are of these bytes; with ``confirmed``, −1 in the plain dialect.
    """

    offset: int
    data: bytes | memoryview
    epoch: int = -1
    epoch_start: int = -1
    confirmed: int = -1


class LeaderSide:
    """What a leader reads and writes on one connection.

    The first bytes tell the dialect: a 1 and two flags are a handshake, if as much again follows.
    A few offsets around 4 GiB look the same: so after `HANDSHAKE_MS` with ``undecided``, say
    `timed_out`. Nothing may be sent before ``dialect`` is known.
    """

    def __init__(self) -> None:
        self.dialect: Dialect | None = None
        self._kept = b""

    @property
    def undecided(self) -> bool:
        """Whether what came may be a handshake's first half, or a plain report."""
        return self.dialect is None and len(self._kept) >= _OFFSET.size

    def receive(self, data: bytes | bytearray | memoryview) -> list[Handshake | Report]:
        """What these bytes complete.

        Raises:
            HaProtocolError: They are of neither dialect.
        """
        kept = self._kept + bytes(data)
        events: list[Handshake | Report] = []
        if self.dialect is None:
            if len(kept) < _OFFSET.size:
                self._kept = kept
                return events
            if not _looks_like_handshake(kept):
                self.dialect = Dialect.PLAIN
            elif len(kept) < _FIRST.size + _OFFSET.size:
                self._kept = kept
                return events
            else:
                self.dialect = Dialect.EPOCHS
                _, from_last_file, learner = _FIRST.unpack_from(kept)
                (follower_id,) = _OFFSET.unpack_from(kept, _FIRST.size)
                if follower_id < 0:
                    raise HaProtocolError(f"a handshake of replica {follower_id}")
                events.append(Handshake(follower_id, from_last_file == 1, learner == 1))
                kept = kept[_FIRST.size + _OFFSET.size :]
        size = (_OFFSET if self.dialect is Dialect.PLAIN else _REPORT).size
        whole = len(kept) - len(kept) % size
        self._kept = kept[whole:]
        events += self._reports(kept[:whole])
        return events

    def _reports(self, data: bytes) -> list[Report]:
        if self.dialect is Dialect.PLAIN:
            ends = [end for (end,) in _OFFSET.iter_unpack(data)]
        else:
            ends = []
            for state, end in _REPORT.iter_unpack(data):
                if state != _TRANSFER:
                    raise HaProtocolError(f"a frame of state {state} where reports are")
                ends.append(end)
        if ends and min(ends) < 0:
            raise HaProtocolError(f"a report of offset {min(ends)}")
        return [Report(end) for end in ends]

    def timed_out(self) -> list[Handshake | Report]:
        """Take what is ``undecided`` for a plain report: no second half came in time.

        Raises:
            HaProtocolError: Some of a second half came, so it is neither.
        """
        if not self.undecided:
            return []
        if len(self._kept) > _OFFSET.size:
            raise HaProtocolError(f"{len(self._kept)} bytes of a handshake, and no more")
        self.dialect = Dialect.PLAIN
        kept, self._kept = self._kept, b""
        return [*self._reports(kept)]

    def hello(self, log_end: int, epoch: int, entries: Sequence[EpochEntry]) -> bytes:
        """The answer to a handshake; of too many entries, the oldest are left out."""
        told = entries[-MAX_ENTRIES:]
        head = _HELLO.pack(_HANDSHAKE, len(told) * _ENTRY.size, log_end, epoch)
        return head + b"".join(_ENTRY.pack(*entry) for entry in told)

    def transfer_head(
        self, offset: int, n: int, epoch: int = -1, epoch_start: int = -1, confirmed: int = -1
    ) -> bytes:
        """What goes before ``n`` bytes of the log, all of which are of one epoch."""
        assert self.dialect is not None, "the follower has said nothing yet"
        assert 0 <= n <= MAX_TRANSFER_BYTES
        if self.dialect is Dialect.PLAIN:
            return _PLAIN_HEAD.pack(offset, n)
        return _EPOCHS_HEAD.pack(_TRANSFER, n, offset, epoch, epoch_start, confirmed)


class FollowerSide:
    """What a follower reads and writes on one connection, in the dialect that it knows."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._kept = b""
        self._greeted = dialect is Dialect.PLAIN
        #: What was begun and is not all here: where it goes on, and how much is left of it.
        self._frame = Transfer(0, b"")
        self._left = 0

    def handshake(
        self, follower_id: int, *, from_last_file: bool = False, learner: bool = False
    ) -> bytes:
        """What is said first, in the epochs dialect; in one write, as RocketMQ wants it."""
        return _FIRST.pack(_HANDSHAKE, from_last_file, learner) + _OFFSET.pack(follower_id)

    def report(self, end: int) -> bytes:
        """How far the log is here."""
        if self.dialect is Dialect.PLAIN:
            return _OFFSET.pack(end)
        return _REPORT.pack(_TRANSFER, end)

    def receive(self, data: bytes | bytearray | memoryview) -> list[LeaderHello | Transfer]:
        """What these bytes complete; transfers are views of them.

        Raises:
            HaProtocolError: They are not of this dialect.
        """
        events: list[LeaderHello | Transfer] = []
        rest = memoryview(data)
        while rest:
            if self._left:
                piece, rest = rest[: self._left], rest[self._left :]
                events.append(self._piece(piece))
            else:
                event, rest = self._head(rest)
                if event is not None:
                    events.append(event)
        return events

    def _piece(self, data: memoryview) -> Transfer:
        frame = self._frame
        piece = Transfer(frame.offset, data, frame.epoch, frame.epoch_start, frame.confirmed)
        self._left -= len(data)
        self._frame = Transfer(
            frame.offset + len(data), b"", frame.epoch, frame.epoch_start, frame.confirmed
        )
        return piece

    def _head(self, rest: memoryview) -> tuple[LeaderHello | Transfer | None, memoryview]:
        """Read on in a head; gives what it is all of, and what is behind it."""
        if not self._greeted:
            return self._hello(rest)
        shape = _PLAIN_HEAD if self.dialect is Dialect.PLAIN else _EPOCHS_HEAD
        rest = self._keep(rest, shape.size)
        if len(self._kept) < shape.size:
            return None, rest
        head, self._kept = self._kept, b""
        if self.dialect is Dialect.PLAIN:
            offset, n = _PLAIN_HEAD.unpack(head)
            frame = Transfer(offset, b"")
        else:
            state, n, *places = _EPOCHS_HEAD.unpack(head)
            if state != _TRANSFER:
                raise HaProtocolError(f"a frame of state {state} where transfers are")
            frame = Transfer(places[0], b"", *places[1:])
            # Apache marks the last bytes of an epoch as the next one's, which begins behind them.
            before = frame.epoch_start - frame.offset
            if min(frame.epoch, frame.epoch_start) < 0 or (before > 0 and not 0 < n <= before):
                raise HaProtocolError(
                    f"bytes from {frame.offset} of epoch {frame.epoch} from {frame.epoch_start}"
                )
        if frame.offset < 0 or not 0 <= n <= MAX_TRANSFER_BYTES:
            raise HaProtocolError(f"a transfer of {n} bytes from {frame.offset}")
        if n == 0:
            return frame, rest
        self._frame, self._left = frame, n
        return None, rest

    def _hello(self, rest: memoryview) -> tuple[LeaderHello | None, memoryview]:
        rest = self._keep(rest, _HELLO.size)
        if len(self._kept) < _HELLO.size:
            return None, rest
        state, size, log_end, epoch = _HELLO.unpack_from(self._kept)
        if state != _HANDSHAKE:
            raise HaProtocolError(f"a frame of state {state} where the leader's hello is")
        if not 0 <= size <= MAX_ENTRIES * _ENTRY.size or size % _ENTRY.size:
            raise HaProtocolError(f"a hello with {size} bytes of epochs")
        rest = self._keep(rest, _HELLO.size + size)
        if len(self._kept) < _HELLO.size + size:
            return None, rest
        body, self._kept = self._kept[_HELLO.size :], b""
        entries = tuple(EpochEntry(*entry) for entry in _ENTRY.iter_unpack(body))
        try:
            check_order(entries)
        except ValueError as error:
            raise HaProtocolError(f"a hello whose epochs are not in order: {error}") from None
        last = entries[-1] if entries else EpochEntry(-1, 0)
        if log_end < last.start or epoch < last.epoch:
            raise HaProtocolError(
                f"a hello of epoch {epoch} that ends at {log_end}, its last entry {tuple(last)}"
            )
        self._greeted = True
        return LeaderHello(log_end, epoch, entries), rest

    def _keep(self, rest: memoryview, size: int) -> memoryview:
        """Add what is missing to so many bytes; gives what is behind."""
        missing = max(0, size - len(self._kept))
        self._kept += rest[:missing]
        return rest[missing:]


def _looks_like_handshake(first: bytes) -> bool:
    state, from_last_file, learner = _FIRST.unpack_from(first)
    return state == _HANDSHAKE and from_last_file in (0, 1) and learner in (0, 1)
