"""The users of a server and what they may do, each in a file that is replaced as a whole.

    users.json   names, secrets, types; readable by its owner alone
    acls.json    policies

HMAC needs the secret itself, so it is there to be read. A version that is older than the last one
is never taken: it could bring back who was removed. A change is in force once the disk has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from rocketpipe.auth.kept_table import AuthFileUnusable, AuthLent, AuthTableFull, KeptTable
from rocketpipe.auth.policy import Action, Decision, Entry, Part, Policy, Resource
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import OldSecret, User, UserStatus, UserType

USERS_FILE: Final = "users.json"
ACLS_FILE: Final = "acls.json"
__all__ = ["AuthFileUnusable", "AuthLent", "AuthTableFull", "PolicyTable", "UserTable"]

MAX_USERS: Final = 10_000
MAX_ENTRIES: Final = 100_000


class _KeptUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A user as the file has it."""

    username: str
    password: str
    user_type: UserType
    user_status: UserStatus
    old_password: str = ""
    old_until_ms: int = 0


class _UsersFile(msgspec.Struct, frozen=True):
    users: dict[str, _KeptUser]


class UserTable(KeptTable[User]):
    """Users by name."""

    file_name = USERS_FILE
    what = "users"

    @property
    def has_super(self) -> bool:
        """Whether somebody is there who may do everything."""
        return any(user.is_super and user.is_enabled for user in self._values.values())

    @staticmethod
    def _name(value: User) -> str:
        return value.name

    @staticmethod
    def _check(values: dict[str, User]) -> None:
        if len(values) > MAX_USERS:
            raise AuthTableFull(f"{MAX_USERS} users are the most")

    @staticmethod
    def _read(text: bytes) -> dict[str, User]:
        return {
            name: User(
                name=name,
                secret=Secret(kept.password),
                type=kept.user_type,
                status=kept.user_status,
                old=OldSecret(secret=Secret(kept.old_password), until_ms=kept.old_until_ms)
                if kept.old_password
                else None,
            )
            for name, kept in msgspec.json.decode(text, type=_UsersFile).users.items()
        }

    @staticmethod
    def _write(values: Mapping[str, User]) -> bytes:
        kept = {
            name: _KeptUser(
                username=name,
                password=user.secret.reveal(),
                user_type=user.type,
                user_status=user.status,
                old_password=user.old.secret.reveal() if user.old else "",
                old_until_ms=user.old.until_ms if user.old else 0,
            )
            for name, user in values.items()
        }
        return _pretty(_UsersFile(kept))


class _KeptEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An entry as the file has it."""

    resource: str
    actions: list[Action]
    source_ips: list[str] = []
    decision: Decision = Decision.ALLOW


class _AclsFile(msgspec.Struct, frozen=True):
    acls: dict[str, dict[Part, list[_KeptEntry]]]


class PolicyTable(KeptTable[Policy]):
    """Policies by their subjects."""

    file_name = ACLS_FILE
    what = "policies"

    @staticmethod
    def _name(value: Policy) -> str:
        return value.subject

    @staticmethod
    def _check(values: dict[str, Policy]) -> None:
        if sum(len(some) for each in values.values() for some in each.entries.values()) > (
            MAX_ENTRIES
        ):
            raise AuthTableFull(f"{MAX_ENTRIES} entries are the most")

    @staticmethod
    def _read(text: bytes) -> dict[str, Policy]:
        return {
            subject: Policy(
                subject=subject,
                entries={
                    part: tuple(
                        Entry(
                            resource=Resource.parse(kept.resource),
                            actions=frozenset(kept.actions),
                            sources=tuple(kept.source_ips),
                            decision=kept.decision,
                        )
                        for kept in some
                    )
                    for part, some in parts.items()
                },
            )
            for subject, parts in msgspec.json.decode(text, type=_AclsFile).acls.items()
        }

    @staticmethod
    def _write(values: Mapping[str, Policy]) -> bytes:
        kept = {
            subject: {
                part: [
                    _KeptEntry(
                        resource=str(entry.resource),
                        actions=sorted(entry.actions, key=lambda action: action.value),
                        source_ips=list(entry.sources),
                        decision=entry.decision,
                    )
                    for entry in some
                ]
                for part, some in policy.entries.items()
            }
            for subject, policy in values.items()
        }
        return _pretty(_AclsFile(kept))


def _pretty(value: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)
