"""Where the log of a child process goes: to a file of its own, or to that of its parent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

#: A log that is longer when its process starts is kept once, and begun anew.
_MOST_LOG_BYTES: Final = 64 << 20
_READ_BYTES: Final = 64 << 10
#: A line that is longer is passed on in parts.
_MOST_LINE_BYTES: Final = 256 << 10


class Output(Protocol):
    """Takes what a process says on standard error."""

    def opened(self) -> AbstractContextManager[IO[bytes] | int]:
        """A context that gives what the process is started with."""
        ...

    async def follow(self, stream: asyncio.StreamReader | None) -> None:
        """Take what it says, until it ends; ``stream`` is there if a pipe was asked for."""
        ...

    def last_words(self) -> str:
        """What tells why it ended: something it said last, or where to look."""
        ...


class LogFile:
    """A file that is appended to at each start."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def opened(self) -> Iterator[IO[bytes] | int]:
        self.path.parent.mkdir(exist_ok=True)
        if self.path.exists() and self.path.stat().st_size > _MOST_LOG_BYTES:
            self.path.replace(self.path.with_suffix(".log.1"))
        with self.path.open("ab") as file:
            yield file

    async def follow(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is None

    def last_words(self) -> str:
        return f"see {self.path}"


class LogLines:
    """Hands on each line with the name of its process in front, but for those of JSON.

    These say themselves of which broker they are.
    """

    def __init__(self, name: str, write: Callable[[bytes], None]) -> None:
        self._mark = f"[{name}] ".encode()
        self._write = write
        self._last = ""

    @contextmanager
    def opened(self) -> Iterator[IO[bytes] | int]:
        self._last = ""
        yield asyncio.subprocess.PIPE

    async def follow(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        rest = b""
        while some := await stream.read(_READ_BYTES):
            *lines, rest = (rest + some).split(b"\n")
            if len(rest) > _MOST_LINE_BYTES:
                lines.append(rest)
                rest = b""
            self._pass_on(lines)
        if rest:
            self._pass_on([rest])

    def last_words(self) -> str:
        return self._last or "it said nothing"

    def _pass_on(self, lines: list[bytes]) -> None:
        if not lines:
            return
        marked = ((b"" if line.startswith(b"{") else self._mark) + line for line in lines)
        self._write(b"".join(b"%b\n" % line for line in marked))
        for line in reversed(lines):
            # What is indented belongs to the line above it.
            if line and not line[:1].isspace():
                self._last = line.decode(errors="replace")
                break
