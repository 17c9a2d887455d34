"""One peer's bytes as commands, whatever pieces they arrive in; it touches no socket.

The buffer holds at most one frame that is still incomplete, so memory is bounded by the frame
limit plus whatever one ``receive`` was given.
"""

from __future__ import annotations

from rocketpipe.errors import FrameError, RemoteProtocolError
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import (
    LENGTH,
    MAX_FRAME_BYTES,
    Bytes,
    bounds_at,
    decode_frame,
    encode_frame,
)
from rocketpipe.protocol.hot import scan

#: Where a frame starts, its body starts, it ends.
Frame = tuple[int, int, int]


class Connection:
    """The protocol's side of one connection: bytes in, commands out, and back."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._pending = bytearray()
        #: With fewer bytes than these, what is pending is no frame yet.
        self._needed = 0
        #: Why nothing more can be read from this peer; set as soon as it is known.
        self.failure: RemoteProtocolError | None = None

    @property
    def buffered_bytes(self) -> int:
        """How much of an incomplete frame is held; 0 between frames."""
        return len(self._pending)

    @property
    def is_between_frames(self) -> bool:
        """Whether the next byte begins a frame."""
        return not self._pending and self.failure is None

    def receive(self, data: Bytes) -> list[Command]:
        """Take what arrived and return the commands that became whole.

        Commands that came before a broken frame are returned first: the break is in ``failure``
        at once, and raised by this call if it brought no command, or else by the next.

        Raises:
            FrameError: If the bytes are no frames; the connection is beyond repair.
            HeaderError: If a header cannot be read; the connection is beyond repair.
        """
        buffer, frames = self.frames(data)
        commands: list[Command] = []
        for at, _, _ in frames:
            try:
                commands.append(self.command(buffer, at))
            except RemoteProtocolError:
                if not commands:
                    raise
                break
        return commands

    def frames(self, data: Bytes) -> tuple[bytes, list[Frame]]:
        """Take what arrived; gives bytes, and where in them whole frames lie.

        Each frame is where it starts, its body starts, it ends. A break behind them is in
        ``failure`` at once, and raised by the next call.

        Raises:
            FrameError: If the bytes are no frames; the connection is beyond repair.
        """
        if self.failure is not None:
            raise self.failure
        if self._pending:
            self._pending += data
            if len(self._pending) < self._needed:
                return b"", []
            buffer = bytes(self._pending)
            self._pending.clear()
        else:
            buffer = bytes(data)  # of bytes, these very bytes
        end = len(buffer)
        frames: list[Frame] = []
        try:
            frames = scan(buffer, 0, end, self._max_frame_bytes)
            used = frames[-1][2] if frames else 0
            if used < end:
                self._keep(buffer, used, end)
        except FrameError as failure:
            self.failure = failure
            if not frames:
                raise
        return buffer, frames

    def _keep(self, buffer: bytes, used: int, end: int) -> None:
        whole = bounds_at(buffer, used, end, self._max_frame_bytes)
        assert whole is None, "a whole frame was left over"
        self._needed = LENGTH.size
        if end - used >= LENGTH.size:
            self._needed += LENGTH.unpack_from(buffer, used)[0]
        self._pending += memoryview(buffer)[used:]

    def command(self, buffer: bytes, at: int) -> Command:
        """Read the command of the frame that `frames` found at ``at``.

        Raises:
            HeaderError: If its header cannot be read; the connection is beyond repair.
        """
        bounds = bounds_at(buffer, at, len(buffer), self._max_frame_bytes)
        assert bounds is not None, "no whole frame here"
        try:
            return decode_frame(buffer, bounds)
        except RemoteProtocolError as failure:
            self.failure = failure
            self._pending.clear()
            raise

    def clear(self) -> None:
        """Let go of a frame that will not be whole any more."""
        self._pending = bytearray()

    def send(self, command: Command) -> bytes:
        """The bytes that carry a command to the peer.

        Raises:
            LocalProtocolError: If the command cannot be written.
        """
        return encode_frame(command)
