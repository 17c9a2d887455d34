"""The users of a server and what they may do, each in a file that is replaced as a whole.

    users.json   names, secrets, types; readable by its owner alone
    acls.json    policies

HMAC needs the secret itself, so it is there to be read. A version that is older than the last one
is never taken: it could bring back who was removed. A change is in force once the disk has it.
"""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from rocketpipe.auth.policy import Action, Decision, Entry, Part, Policy, Resource
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import SUBJECT_PREFIX, OldSecret, User, UserStatus, UserType
from rocketpipe.errors import RocketPipeError
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import Snapshot, SnapshotDamaged

USERS_FILE: Final = "users.json"
ACLS_FILE: Final = "acls.json"
MAX_USERS: Final = 10_000
MAX_ENTRIES: Final = 100_000
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

ValueT = TypeVar("ValueT")


class AuthFileUnusable(RocketPipeError):
    """A file of users or policies that a server must not start with."""

    def __init__(self, path: Path, reason: str, hint: str) -> None:
        super().__init__(f"{path}: {reason}: {hint}")
        self.path = path
        self.hint = hint


class AuthTableFull(RocketPipeError):
    """One more user or entry than there may be."""


class AuthLent(RocketPipeError):
    """A user, or rights, that a file has which others write: there alone they change."""

    def __init__(self, name: str, lender: str) -> None:
        super().__init__(f"{SUBJECT_PREFIX}{name} is an account of {lender}: change it there")


class _KeptTable(Generic[ValueT]):
    """Values by name, in memory and on the disk; changes may come from any thread."""

    file_name: str
    what: str

    def __init__(self, values: Mapping[str, ValueT], snapshot: Snapshot | None) -> None:
        self._own = dict(values)
        #: What a file of somebody else says, which counts before what is kept here.
        self._lent: dict[str, ValueT] = {}
        self._lender = ""
        self._values = dict(self._own)
        self._snapshot = snapshot
        self._changing = threading.Lock()
        #: Another object after each change, and how many there were.
        self.version: object = object()
        self.changes = 0

    @classmethod
    def in_memory(cls, *values: ValueT) -> Any:
        """A table that nobody keeps."""
        return cls({cls._name(value): value for value in values}, None)

    @classmethod
    def opened(cls, disk: Disk, directory: Path) -> Any:
        """Read the table of a directory; an empty one if there is none.

        Raises:
            AuthFileUnusable: If it is damaged, or others may read it.
            DiskError: If the disk refuses.
        """
        path = directory / cls.file_name
        try:
            mode = path.stat().st_mode
        except OSError:
            mode = 0
        if mode & _OTHERS:
            raise AuthFileUnusable(
                path,
                f"others may read or change it (mode {stat.S_IMODE(mode):04o})",
                f"chmod 600 {path}, and change the secrets that somebody may have seen",
            )
        snapshot = Snapshot(disk, path)
        try:
            values = snapshot.load(cls._read, fall_back=False)
        except SnapshotDamaged as damage:
            raise AuthFileUnusable(
                path,
                str(damage),
                f"mend it, restore a copy of your own, or take {path.name}.bak if nobody was "
                "removed since",
            ) from damage
        return cls(values or {}, snapshot)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str) -> ValueT | None:
        return self._values.get(name)

    def all(self) -> list[ValueT]:
        """Every value, in the order of their names."""
        return [value for _, value in sorted(self._values.items())]

    def kept(self) -> list[ValueT]:
        """Those that are on our disk, in the order of their names."""
        return [value for _, value in sorted(self._own.items())]

    def put(self, value: ValueT) -> None:
        """Take a value in, in the place of the one of that name.

        Raises:
            AuthTableFull: If there is no room for it.
            AuthLent: If a file of others has it.
            DiskError: If it could not be kept; nothing has changed then.
        """
        self.change(lambda values: {**values, self._name(value): value})

    def put_all(self, values: Iterable[ValueT]) -> None:
        """Take values in, all or none; see `put`."""
        new = {self._name(value): value for value in values}
        self.change(lambda known: {**known, **new})

    def remove(self, name: str) -> bool:
        """Forget a value; tells whether there was one.

        Raises:
            DiskError: If that could not be kept; nothing has changed then.
        """
        if name not in self._values:
            return False
        self._refuse_lent([name])
        # Twice: else the version before would keep what was removed.
        self.change(
            lambda values: {each: value for each, value in values.items() if each != name}, times=2
        )
        return True

    def change(
        self, change: Callable[[dict[str, ValueT]], dict[str, ValueT]], *, times: int = 1
    ) -> None:
        """Put other values in the place of these; in force once they are on the disk.

        Raises:
            AuthTableFull: If they are too many.
            AuthLent: If a file of others has one that would change.
            DiskError: If they could not be kept; nothing has changed then.
        """
        with self._changing:
            values = change(self._own)
            self._refuse_lent(
                name for name in self._lent if values.get(name) is not self._own.get(name)
            )
            self._check(values)
            if self._snapshot is not None:
                for _ in range(times):
                    self._snapshot.save(self._write(values))
            self._own = values
            self._changed()

    def lend(self, values: Iterable[ValueT], lender: str) -> None:
        """Have these count too, before those that are kept, until others are lent.

        They are on no disk of ours: ``lender`` is the file that has them, and to change them here
        is refused.
        """
        with self._changing:
            self._lent = {self._name(value): value for value in values}
            self._lender = lender
            self._changed()

    def _changed(self) -> None:
        self._values = {**self._own, **self._lent}
        self.version = object()
        self.changes += 1

    def _refuse_lent(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._lent:
                raise AuthLent(name.removeprefix(SUBJECT_PREFIX), self._lender)

    @staticmethod
    def _name(value: Any) -> str:
        raise NotImplementedError

    @staticmethod
    def _check(values: dict[str, Any]) -> None:
        raise NotImplementedError

    @staticmethod
    def _read(text: bytes) -> dict[str, Any]:
        raise NotImplementedError

    @staticmethod
    def _write(values: Mapping[str, Any]) -> bytes:
        raise NotImplementedError


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


class UserTable(_KeptTable[User]):
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


class PolicyTable(_KeptTable[Policy]):
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
