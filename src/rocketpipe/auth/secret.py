"""A text that nobody sees by accident: not in a log, a traceback or the text of a plan."""

from __future__ import annotations

import hmac
import secrets
from typing import Final

HIDDEN: Final = "******"
#: Fewer characters than this are guessed.
LEAST_CHARACTERS: Final = 16
#: As 4.9 had it: peers of ours and Apache's tools choose secrets that are no longer.
LEAST_ON_THE_WIRE: Final = 7
#: More than this no client would keep; every check hashes it once.
MOST_CHARACTERS: Final = 1024
_BYTES: Final = 24


class Secret:
    """One secret. Its text is asked for by name; every other way to it shows ``******``."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def generate(cls) -> Secret:
        """Make one that nobody can guess."""
        return cls(secrets.token_urlsafe(_BYTES))

    def reveal(self) -> str:
        """Give the text itself."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self._text)

    def is_same(self, other: Secret) -> bool:
        """Whether another one has the same text, found out in a time that tells nothing of it."""
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __eq__(self, other: object) -> bool:
        return self.is_same(other) if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash(Secret)


def check_secret(text: str, *, least: int = LEAST_CHARACTERS) -> Secret:
    """Take a secret that somebody chose.

    Raises:
        ValueError: If it is shorter than ``least``, is the text that stands for a hidden one, or
            has characters that files and headers lack.
    """
    if text == HIDDEN:
        raise ValueError(f"{HIDDEN} stands for a secret that is not shown: it is none itself")
    if not text or len(text) > MOST_CHARACTERS or not text.isprintable():
        raise ValueError(f"a secret has 1 to {MOST_CHARACTERS} printable characters")
    if len(text) < least:
        raise ValueError(f"a secret of {len(text)} characters can be guessed: give {least} or more")
    return Secret(text)
