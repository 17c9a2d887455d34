"""Users and their rights as entries of the table log, which those alone can read who have a secret.

Other tables stand in the log as they are. Secrets must not: a log is read by whoever may read all
topics, lies in backups and goes to Spark. So what is said of a user is sealed by the secret of the
user that brokers ask each other as, which all replicas know:

    ["broker-inner", base64(nonce:16  sealed  tag:32)]

The seal is a stream of HMAC-SHA256 over a nonce and a counter, and a tag of HMAC-SHA256 over both;
each has a key of its own. Who changes that secret leaves the old one valid for a while
(``user rotate``): replicas read by either. What cannot be read changes nothing here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.gate import Gate
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.errors import RocketPipeError
from rocketpipe.remoting.log_budget import LogBudget

_NONCE_BYTES: Final = 16
_TAG_BYTES: Final = 32
_BLOCK_BYTES: Final = 32

#: Who sealed it, and what.
Entry = tuple[str, str]

log = logging.getLogger(__name__)


class _Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an entry says: a table, and of one name in it what there is now."""

    table: str
    name: str
    #: As the table's file has it; empty for what is gone.
    text: str = ""


@dataclass(slots=True)
class SeenUsers:
    """What the parts of a snapshot had so far."""

    users: set[str] = field(default_factory=set)
    policies: set[str] = field(default_factory=set)
    is_unreadable: bool = False


class SealedUsers:
    """The users of a broker, to be written to the log and read from it."""

    def __init__(self, gate: Gate, inner: Credentials) -> None:
        self._inner = inner
        self._users = gate.users
        self._tables: dict[str, Any] = {
            UserTable.what: gate.users,
            PolicyTable.what: gate.policies,
        }
        self._unreadable = LogBudget(lines=1)

    # Leader

    def watch(self, wanted: bool = True) -> None:
        """Note from now on what changes, or no more."""
        for table in self._tables.values():
            table.watch(wanted)

    @property
    def has_news(self) -> bool:
        """Whether somebody was made, changed or removed."""
        return any(table.has_news for table in self._tables.values())

    def take_news(self) -> dict[str, set[str]]:
        """What changed, by table."""
        return {what: table.take_news() for what, table in self._tables.items()}

    def put_news_back(self, news: dict[str, set[str]]) -> None:
        """Have it told again."""
        for what, names in news.items():
            self._tables[what].put_news_back(names)

    def all_names(self) -> dict[str, set[str]]:
        """Everything, by table."""
        return {what: set(table.kept_names()) for what, table in self._tables.items()}

    def entries(self, names: dict[str, set[str]]) -> Iterator[Entry]:
        """What there is of these names now."""
        for what, some in names.items():
            table = self._tables[what]
            for name in sorted(some):
                value = table.kept_as(name)
                text = "" if value is None else table.encode({name: value}).decode()
                said = msgspec.json.encode(_Said(what, name, text))
                yield self._inner.access_key, _sealed(self._inner.secret, said)

    # Follower

    def apply(self, entries: Iterable[Entry], seen: SeenUsers | None) -> None:
        """Have what entries say; ``seen`` remembers what a snapshot had."""
        put: dict[str, list[Any]] = {what: [] for what in self._tables}
        gone: dict[str, list[str]] = {what: [] for what in self._tables}
        for sealed_by, text in entries:
            said = self._opened(sealed_by, text)
            if said is None or said.table not in self._tables:
                if seen is not None:
                    seen.is_unreadable = True
                continue
            if said.text:
                put[said.table] += self._tables[said.table].decode(said.text.encode()).values()
                if seen is not None:
                    names = seen.users if said.table == UserTable.what else seen.policies
                    names.add(said.name)
            else:
                gone[said.table].append(said.name)
        for what, table in self._tables.items():
            if put[what] or gone[what]:
                table.replicate(put[what], gone[what])

    def keep_only(self, seen: SeenUsers) -> None:
        """Forget whom no part of a snapshot had; if a part could not be read, nobody."""
        if seen.is_unreadable:
            return
        for what, names in ((UserTable.what, seen.users), (PolicyTable.what, seen.policies)):
            table = self._tables[what]
            table.replicate((), set(table.kept_names()) - names)

    def save(self) -> None:
        """Bring what was taken over to the disk.

        Raises:
            DiskError: It could not be.
        """
        for table in self._tables.values():
            table.save_replicated()

    def _opened(self, sealed_by: str, text: str) -> _Said | None:
        for secret in self._keys(sealed_by):
            said = _unsealed(secret, text)
            if said is not None:
                try:
                    return msgspec.json.decode(said, type=_Said)
                except (msgspec.MsgspecError, RocketPipeError):
                    break
        if self._unreadable.allows():
            log.error(
                "users of the leader cannot be read, and stay as they are here: it asks others as "
                "%s, and innerClientAuthenticationCredentials have another secret here: make them "
                "the same%s",
                sealed_by[:64],
                self._unreadable.suppressed(),
            )
        return None

    def _keys(self, sealed_by: str) -> list[Secret]:
        keys = [self._inner.secret] if sealed_by == self._inner.access_key else []
        user = self._users.get(sealed_by)
        if user is not None:
            keys += [user.secret, *([user.old.secret] if user.old is not None else [])]
        return keys


def _sealed(secret: Secret, said: bytes) -> str:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    hidden = _mixed(secret, nonce, said)
    return base64.b64encode(nonce + hidden + _tag(secret, nonce + hidden)).decode()


def _unsealed(secret: Secret, text: str) -> bytes | None:
    """What was sealed; None if it was by another secret, or is not what was written."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) < _NONCE_BYTES + _TAG_BYTES:
        return None
    body, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    if not hmac.compare_digest(_tag(secret, body), tag):
        return None
    return _mixed(secret, body[:_NONCE_BYTES], body[_NONCE_BYTES:])


def _mixed(secret: Secret, nonce: bytes, data: bytes) -> bytes:
    key = _key(secret, b"hide")
    blocks = range(-(-len(data) // _BLOCK_BYTES))
    stream = b"".join(
        hmac.digest(key, nonce + number.to_bytes(8, "big"), hashlib.sha256) for number in blocks
    )[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


def _tag(secret: Secret, data: bytes) -> bytes:
    return hmac.digest(_key(secret, b"tag"), data, hashlib.sha256)


def _key(secret: Secret, use: bytes) -> bytes:
    return hmac.digest(secret.reveal().encode(), b"rocketpipe table log 1\0" + use, hashlib.sha256)
