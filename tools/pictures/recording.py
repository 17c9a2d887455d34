"""Commands that run in real terminals, and what these showed and when.

What is typed is typed at our pace, and the pauses behind it are ours too: time to read. Commands
take the time that they took, but no more than anybody would watch.
"""

from __future__ import annotations

import codecs
import errno
import fcntl
import os
import pty
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.pictures.screen import Screen

PROMPT: Final = "\x1b[32m$\x1b[0m "
KEY_MS: Final = 35
#: As much of a command's own time as is shown.
MOST_MS: Final = 500
#: What a reader has before the next command, and more for each row that came.
READ_MS: Final = 900
READ_ROW_MS: Final = 90
_ROWS: Final = 50


class CommandFailed(Exception):
    """A command that was to be shown did not do what it should."""


@dataclass(slots=True)
class Moment:
    """How far a recording has come; its panes share it."""

    ms: int = 0


@dataclass(slots=True)
class Pane:
    """One terminal of a recording: its title, and what it showed."""

    title: str
    screen: Screen
    now: Moment
    directory: Path
    environment: Mapping[str, str]
    commands: list[str] = field(default_factory=list)

    def run(self, command: str) -> None:
        """Type a command, and show all that it says until it has ended well.

        Raises:
            CommandFailed: It has not.
        """
        with self._running(command) as (child, output):
            said = "".join(self._show(output))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            raise CommandFailed(f"{command}: exit code {code}\n{said}")
        self.now.ms += READ_MS + READ_ROW_MS * said.count("\n")

    @contextmanager
    def served(self, command: str, ready: str) -> Iterator[None]:
        """Type a command that goes on, and have it ``ready`` within the block; then end it.

        Raises:
            CommandFailed: It ended before it was ready.
        """
        with self._running(command) as (child, output):
            said = ""
            try:
                for text in self._show(output):
                    said += text
                    if ready in said and said.endswith("\n"):
                        break
                else:
                    raise CommandFailed(f"{command}: it ended\n{said}")
                self.now.ms += READ_MS + READ_ROW_MS * said.count("\n")
                yield
            finally:
                os.kill(child, signal.SIGINT)
                for _ in output:  # who is not read does not end
                    pass
                os.waitpid(child, 0)

    @contextmanager
    def _running(self, command: str) -> Iterator[tuple[int, Iterator[str]]]:
        """The process of a command that was typed, and what it says, piece by piece."""
        self.commands.append(command)
        self.screen.write(PROMPT, self.now.ms)
        self.now.ms += 10 * KEY_MS
        for key in command:
            self.screen.write(f"\x1b[1m{key}\x1b[0m", self.now.ms)
            self.now.ms += KEY_MS
        self.screen.write("\r\n", self.now.ms)
        child, terminal = pty.fork()
        if child == 0:
            try:
                os.chdir(self.directory)
                os.execvpe("sh", ["sh", "-c", f"exec {command}"], dict(self.environment))
            finally:
                os._exit(127)
        try:
            fcntl.ioctl(
                terminal, termios.TIOCSWINSZ, struct.pack("4H", _ROWS, self.screen.columns, 0, 0)
            )
            yield child, _pieces(terminal)
        finally:
            os.close(terminal)

    def _show(self, output: Iterator[str]) -> Iterator[str]:
        """Write what comes on the screen, and give it."""
        last = time.monotonic()
        for text in output:
            took_ms = int((time.monotonic() - last) * 1000)
            self.now.ms += min(took_ms, MOST_MS)
            last = time.monotonic()
            self.screen.write(text, self.now.ms)
            yield text


def _pieces(terminal: int) -> Iterator[str]:
    """What is said, in whole lines or up to where it paused, until there is nobody to say it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    left = ""
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:  # as Linux tells the end of a terminal
                raise
            data = b""
        if not data:
            break
        text = left + decoder.decode(data)
        # An escape sequence may come in two pieces.
        cut = text.rfind("\x1b")
        whole = cut < 0 or any(char.isalpha() for char in text[cut:])
        text, left = (text, "") if whole else (text[:cut], text[cut:])
        if text:
            yield text
    if left:
        yield left
