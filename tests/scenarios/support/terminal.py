"""A terminal for the installed command, and what its answers are compared with.

What people see is kept in ``tests/cli/golden``: ``NAME.txt`` as a terminal shows it, ``NAME.json``
as a program gets it. `masked` takes out what differs from run to run. To write the files anew, look
at the difference and commit it:

    ROCKETPIPE_UPDATE_GOLDEN=1 .venv/bin/python -m pytest tests/scenarios/test_terminal.py
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from tests.guarded import is_kept
from tests.waiting import PATIENCE_S

from rocketpipe.cli.main import main

COMMAND: Final = str(Path(sys.executable).parent / "rocketpipe")
GOLDEN: Final = Path(__file__).parents[2] / "cli" / "golden"
COLUMNS: Final = 110
#: A command that takes longer hangs; none comes near.
_UPDATE: Final = bool(os.environ.get("ROCKETPIPE_UPDATE_GOLDEN"))

#: What differs from run to run, and what stands for it. The order counts.
_VOLATILE: Final = (
    (r"\x1b\[[0-9;]*[mK]", ""),
    (r"\r\n", "\n"),
    # A progress bar is drawn over what was drawn before; what is seen is the last of it.
    (r"[^\n\r]*\r", ""),
    # Where the banner breaks a line depends on how long the path of the directory is.
    (r"\n {14}", " "),
    (r"\d+\.\d+\.\d+\.\d+@\d+(?:[#@][^\s\",]*)?", "CLIENT"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.?\d*(?:\+00:00|Z)?", "TIME"),
    (r"\b[0-9A-F]{32}\b|\b[0-9A-F]{3,}…[0-9A-F]{3,}\b", "MESSAGE-ID"),
    (r"\bdjEg\S*…\S*", "HANDLE"),
    (r"\bv1 ?[A-Za-z0-9+/=_-]{40,}|\b[A-Za-z0-9_-]{60,}={0,2}", "HANDLE"),
    (r"rocketpipe\": \{[^}]*\}", 'rocketpipe": VERSION'),
    (r"RocketPipe\s+\d.*\n", "RocketPipe  VERSION\n"),
    # How many cores there are, and whether uvloop is, is the machine's.
    (r"(Cores\s+1 broker on 1 of) .*\n", r"\1 CORES\n"),
    (r'("cores": \{"brokers": 1, "usable":) \d+', r"\1 CORES"),
    (r"  Faster with .*\n", ""),
    (r"\b1[0-9]{12}\b", "TIMESTAMP"),
    (r'"(in|out)_tps": [\d.]+', r'"\1_tps": RATE'),
    (r"[\d.]+ +[\d.]+ +(yes|no)\n", r"RATE  RATE  \1\n"),
    (r"[\d.]+ [KM]iB; after", "SIZE; after"),
    (r'(__CRC32#(?:": "|=))\d+', r"\1CHECKSUM"),
    (r"\b(?:DESKTOP|V\d+_\d+_\d+(?:_SNAPSHOT)?)\b", "VERSION"),
)


def masked(text: str, places: Mapping[str, str]) -> str:
    """Text without what differs from run to run; ``places`` are paths, and what stands for each.

    Blanks that only align are made two, since what was aligned may have changed its length.
    """
    for pattern, instead in _VOLATILE:
        text = re.sub(pattern, instead, text)
    for path, instead in sorted(places.items(), key=lambda item: -len(item[0])):
        text = text.replace(path, instead)
    return re.sub(r"(?<=\S) {2,}(?=\S)", "  ", text)


@dataclass(frozen=True)
class Answer:
    """How a command ended, and what it printed."""

    code: int
    text: str
    errors: str = ""

    @property
    def value(self) -> Any:
        return json.loads(self.text)


class Screen:
    """A program on a terminal of its own, of a fixed width."""

    def __init__(
        self, words: list[str], directory: Path, environ: Mapping[str, str], columns: int = COLUMNS
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            words,
            cwd=directory,
            env=dict(environ),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            # So that Ctrl-C reaches it, as it does from a keyboard.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.shown = ""

    def read_until(self, pattern: str) -> re.Match[str]:
        """Wait until the screen shows something."""
        found = re.search(pattern, self.shown)
        while found is None:
            assert self._read(), f"{pattern!r} was never shown: {self.shown}"
            found = re.search(pattern, self.shown)
        return found

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def finish(self) -> Answer:
        """Read all there is, until the program ends."""
        while self._read():
            pass
        code = self.process.wait(PATIENCE_S)
        self.close()
        return Answer(code, self.shown)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(PATIENCE_S)
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def _read(self) -> bool:
        waiting = select.poll()
        waiting.register(self._master, select.POLLIN)
        if not waiting.poll(PATIENCE_S * 1000):
            raise AssertionError(f"nothing came for {PATIENCE_S} s after: {self.shown}")
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # how Linux says that nobody has the terminal any more
            return False
        self.shown += data.decode()
        return bool(data)


class Terminal:
    """Runs the installed command as a user in one directory does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("NAMESRV_ADDR", "NO_COLOR", "COLUMNS", "LINES")
            and name != "PYTHONDONTWRITEBYTECODE"
            and (not name.startswith("ROCKETPIPE_") or is_kept(name))
        }
        self.environ = {**kept, "TERM": "xterm-256color", "HOME": str(directory), "TZ": "UTC"}
        # As after an install: what was compiled once is not compiled again.
        self.environ["PYTHONPYCACHEPREFIX"] = str(directory / "compiled")
        self.places = {str(directory): "HERE"}

    def open(self, *words: str, columns: int = COLUMNS) -> Screen:
        """Start a command on a screen of its own."""
        return Screen([COMMAND, *words], self.directory, self.environ, columns)

    def piped(self, *words: str, code: int = 0, typed: str = "") -> Answer:
        """Run a command whose output a program reads."""
        done = subprocess.run(
            [COMMAND, *words],
            cwd=self.directory,
            env=self.environ,
            input=typed,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return Answer(done.returncode, done.stdout, done.stderr)

    def shown(self, name: str, *words: str, code: int = 0) -> str:
        """Run a command on a terminal and compare what it shows with ``NAME.txt``."""
        answer = self.open(*words).finish()
        assert "Traceback" not in answer.text, answer.text
        assert answer.code == code, (words, answer.text)
        shown = masked(answer.text, self.places)
        compare(f"{name}.txt", f"$ rocketpipe {masked(' '.join(words), self.places)}\n{shown}")
        return answer.text

    def told(self, *words: str, code: int = 0) -> str:
        """What the same command gives a program; asked in this process, which costs less."""
        with (
            contextlib.chdir(self.directory),
            mock.patch.dict(os.environ, self.environ, clear=True),
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as errors,
        ):
            assert main([*words, "-o", "json"]) == code, (words, out.getvalue(), errors.getvalue())
        return out.getvalue()

    def both(self, name: str, *words: str, code: int = 0) -> Any:
        """The same on a terminal and for a program; both at once, since neither changes a thing."""
        screen = self.open(*words)
        answer = self.told(*words, code=code)
        shown = screen.finish()
        assert shown.code == code, (words, shown.text)
        assert "Traceback" not in shown.text, shown.text
        told = f"$ rocketpipe {masked(' '.join(words), self.places)}\n"
        compare(f"{name}.txt", told + masked(shown.text, self.places))
        compare(f"{name}.json", masked(answer, self.places))
        return json.loads(answer)

    def until(self, *words: str, holds: Callable[[Any], bool]) -> Any:
        """Ask again until the answer is as it should be; gives it."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(value := json.loads(self.told(*words))):
            assert time.monotonic() < deadline, value
        return value


def compare(name: str, text: str) -> None:
    """Hold an answer against the file that keeps it, or write that anew where asked to."""
    file = GOLDEN / name
    if _UPDATE:
        file.write_text(text)
        return
    kept = file.read_text() if file.exists() else ""
    difference = difflib.unified_diff(
        kept.splitlines(), text.splitlines(), str(file.name), "now", lineterm=""
    )
    assert text == kept, "\n".join(difference)
