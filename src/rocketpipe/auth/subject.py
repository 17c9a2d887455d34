"""Who may be let in: users, with the secrets that are valid for each."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from rocketpipe.auth.secret import Secret
from rocketpipe.errors import InvalidName

MAX_NAME: Final = 64
SUBJECT_PREFIX: Final = "User:"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")


class UserType(Enum):
    """Whether policies are asked at all."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(Enum):
    """Whether a user is let in."""

    ENABLE = "enable"
    DISABLE = "disable"


def check_user(name: str) -> str:
    """Refuse a name that no user may have.

    Raises:
        InvalidName: If it is blank, too long, or has a character outside ``a-zA-Z0-9_.@-``.
    """
    if not name.strip():
        raise InvalidName("user", name[:MAX_NAME], "is blank")
    if len(name) > MAX_NAME:
        raise InvalidName("user", name[:MAX_NAME] + "…", f"has more than {MAX_NAME} characters")
    if not _NAME.fullmatch(name):
        raise InvalidName("user", name, "is not made of a-zA-Z0-9_.@- with a letter in front")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class OldSecret:
    """What was a user's secret before, and until when it is one still."""

    secret: Secret
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One user."""

    name: str
    secret: Secret
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    #: Valid beside ``secret`` for a while, so that clients can change over.
    old: OldSecret | None = None

    @property
    def subject(self) -> str:
        """Its name as policies have it."""
        return SUBJECT_PREFIX + self.name

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        return self.status is UserStatus.ENABLE

    def rotated(self, secret: Secret, until_ms: int) -> User:
        """The same user with another secret; the one it had is valid until then."""
        return replace(self, secret=secret, old=OldSecret(secret=self.secret, until_ms=until_ms))

    def with_secret(self, secret: Secret, old_until_ms: int | None) -> User:
        """The same user with this secret; the last one is gone, or good until then.

        Told again, it changes nothing but the time: a secret is never its own predecessor.
        """
        if not old_until_ms:
            return replace(self, secret=secret, old=None)
        if not secret.is_same(self.secret):
            return self.rotated(secret, old_until_ms)
        return replace(self, old=self.old and replace(self.old, until_ms=old_until_ms))

    def secrets_at(self, now_ms: int) -> list[Secret]:
        """Those that are valid now."""
        if self.old is not None and now_ms < self.old.until_ms:
            return [self.secret, self.old.secret]
        return [self.secret]


def user_of_subject(subject: str) -> str:
    """``User:alice`` → ``alice``.

    Raises:
        InvalidName: If it is no user's subject.
    """
    kind, _, name = subject.partition(":")
    if kind.lower() != "user" or not name:
        raise InvalidName("subject", subject[:MAX_NAME], f"is not {SUBJECT_PREFIX}<name>")
    return check_user(name)
