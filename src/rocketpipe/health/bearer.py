"""A token that those show who ask the HTTP port for more than whether it is alive."""

from __future__ import annotations

import hmac
import stat
from pathlib import Path
from typing import Final

from rocketpipe.errors import ConfigError

#: Fewer characters than this are guessed.
LEAST_CHARACTERS: Final = 16
_MOST_BYTES: Final = 4096
_SCHEME: Final = "bearer "


class BearerToken:
    """The first line of a file, read again when the file is another one."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            ConfigError: If there is none that could be used, or others may read it.
        """
        self.path = path
        self._seen = self._stamp()
        self.text = _read(path)

    def is_shown_in(self, head: str) -> bool:
        """Whether the head of a request has it."""
        shown = ""
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            if name.strip().lower() == "authorization":
                shown = value.strip()
        return self.is_shown(shown)

    def is_shown(self, shown: str) -> bool:
        """Whether what stands under ``Authorization`` is it."""
        if (seen := self._stamp()) != self._seen:
            self._seen = seen
            try:
                self.text = _read(self.path)
            except ConfigError:
                pass  # half written, or gone: the last one stays
        if not shown.lower().startswith(_SCHEME):
            return False
        told = shown[len(_SCHEME) :].strip()
        return hmac.compare_digest(told.encode("latin-1", "replace"), self.text.encode())

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            lines = file.read(_MOST_BYTES).decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no plain text"
        raise ConfigError("--http-token-file", f"{path} cannot be read: {reason}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError("--http-token-file", f"others may read {path}: chmod 600 {path}")
    token = lines[0].strip() if lines else ""
    if len(token) < LEAST_CHARACTERS or not token.isprintable() or " " in token:
        raise ConfigError(
            "--http-token-file",
            f"{path} has no token of {LEAST_CHARACTERS} or more characters in its first line",
        )
    return token
