"""One peer's bytes as commands, whatever pieces they arrive in; it touches no socket.

The buffer holds at most one frame that is still incomplete, so memory is bounded by the frame
limit plus whatever one ``receive`` was given.
"""

from __future__ import annotations

from rocketpipe.errors import RemoteProtocolError
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import (
    MAX_FRAME_BYTES,
    Bytes,
    bounds_at,
    decode_frame,
    encode_frame,
)


class Connection:
    """The protocol's side of one connection: bytes in, commands out, and back."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._pending = bytearray()
        #: Why nothing more can be read from this peer; set as soon as it is known.
        self.failure: RemoteProtocolError | None = None

    @property
    def buffered_bytes(self) -> int:
        """How much of an incomplete frame is held; 0 between frames."""
        return len(self._pending)

    def receive(self, data: Bytes) -> list[Command]:
        """Take what arrived and return the commands that became whole.

        Commands that came before a broken frame are returned first: the break is in ``failure``
        at once, and raised by this call if it brought no command, or else by the next.

        Raises:
            FrameError: If the bytes are no frames; the connection is beyond repair.
            HeaderError: If a header cannot be read; the connection is beyond repair.
        """
        if self.failure is not None:
            raise self.failure
        buffer: Bytes = data
        if self._pending:
            self._pending += data
            buffer = self._pending
        commands: list[Command] = []
        used, failure = self._read_frames(buffer, commands)
        if failure is not None:
            self.failure = failure
            self._pending.clear()
            if not commands:
                raise failure
        elif buffer is self._pending:
            del self._pending[:used]
        elif used < len(buffer):
            self._pending += memoryview(buffer)[used:]
        return commands

    def _read_frames(
        self, buffer: Bytes, commands: list[Command]
    ) -> tuple[int, RemoteProtocolError | None]:
        used, end = 0, len(buffer)
        try:
            while True:
                bounds = bounds_at(buffer, used, end, self._max_frame_bytes)
                if bounds is None:
                    return used, None
                commands.append(decode_frame(buffer, bounds))
                used = bounds.end
        except RemoteProtocolError as failure:
            return used, failure

    def send(self, command: Command) -> bytes:
        """The bytes that carry a command to the peer.

        Raises:
            LocalProtocolError: If the command cannot be written.
        """
        return encode_frame(command)
