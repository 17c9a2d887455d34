"""The lines of the audit in a file of their own, which is kept from growing without end.

    audit.log       what happens now, nobody else's to read
    audit.log.1     what happened before, and so on up to as many as are wanted

Each line goes to the operating system where it is written, by one ``write`` without a sync: a kill
of the process loses none, and the loop waits no longer than for a message that is stored. What does
not fit on the disk is counted, and the count stands in the file once there is room again.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rocketpipe.auth.auditing.audit import AUDIT_LOGGER
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.log_budget import LogBudget

_MODE: Final = 0o600
_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC

log = logging.getLogger(__name__)


class AuditFile(logging.Handler):
    """Writes the lines of the audit."""

    def __init__(self, path: Path, most_bytes: int, most_files: int) -> None:
        """Begin another file behind ``most_bytes``, and keep ``most_files`` of them.

        Raises:
            ConfigError: If the file cannot be written.
        """
        super().__init__(logging.INFO)
        self.path = path
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._descriptor = -1
        self._inode = 0
        self._size = 0
        #: Lines that could not be written, since the last that could, and in all.
        self._missing = 0
        self.lost = 0
        self._writing = threading.Lock()
        self._failures = LogBudget(lines=1)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise ConfigError(
                "auditLogPath", f"{path} cannot be written ({error.strerror})"
            ) from error

    def install(self) -> None:
        """Have the audit's lines here, and nowhere else."""
        audit = logging.getLogger(AUDIT_LOGGER)
        audit.addHandler(self)
        audit.propagate = False
        audit.setLevel(logging.INFO)

    def uninstall(self) -> None:
        """Have them where they were, and let the file go."""
        audit = logging.getLogger(AUDIT_LOGGER)
        audit.removeHandler(self)
        audit.propagate = True
        audit.setLevel(logging.NOTSET)
        self.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; what the disk does not take is counted, and nobody is held up by it."""
        line = f"time={_moment(record.created)} {record.getMessage()}\n".encode()
        with self._writing:
            try:
                self._turn(len(line))
                if self._missing:
                    missing = f"time={_moment(record.created)} lines_lost={self._missing}\n"
                    self._write(missing.encode())
                    self._missing = 0
                self._write(line)
            except OSError as error:
                self._missing += 1
                self.lost += 1
                if self._failures.allows():
                    log.error(
                        "the audit cannot be written, and goes on without: make room, or see to "
                        "its directory file=%s reason=%s%s",
                        self.path,
                        error.strerror,
                        self._failures.suppressed(),
                    )

    def close(self) -> None:
        """Let the file go."""
        with self._writing:
            self._let_go()
        super().close()

    def _write(self, line: bytes) -> None:
        written = os.write(self._descriptor, line)
        if written < len(line):
            # A part of a line is none: somebody would read it for another one.
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written

    def _turn(self, more: int) -> None:
        """Have a file open with room for a line, also if somebody has moved the last one away."""
        try:
            is_there = self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            is_there = False
        if not is_there or self._descriptor < 0:
            self._open()
        if self._size and self._size + more > self._most_bytes:
            self._let_go()
            for number in range(self._most_files - 1, 0, -1):
                older = self._numbered(number - 1)
                if older.exists():
                    older.replace(self._numbered(number))
            if self._most_files == 1:
                self.path.unlink()
            self._open()

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def _open(self) -> None:
        self._let_go()
        self._descriptor = os.open(self.path, _OPEN, _MODE)
        found = os.fstat(self._descriptor)
        if found.st_mode & 0o077:
            os.fchmod(self._descriptor, _MODE)
        self._inode, self._size = found.st_ino, found.st_size
        if self._size and not self._ends_whole():
            self._write(b"\n")  # the machine failed in the middle of a line

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
