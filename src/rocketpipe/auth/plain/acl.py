"""RocketMQ 4.9's ``plain_acl.yml``, read into users and what they may do: all of it, or nothing.

    accessKey, secretKey            a user and its secret
    admin                           a user who may do everything
    topicPerms, groupPerms          entries of its own
    defaultTopicPerm, …GroupPerm    entries by default, for all topics and groups
    whiteRemoteAddress              where it may come from; it was let in from there unasked
    globalWhiteRemoteAddresses      nothing: an address never stands for a login

A permission that is misspelt denies in 4.9, and allows everything once RocketMQ 5 has migrated the
file: so it is refused here, each with its line.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from rocketpipe.auth.plain.addresses import read_addresses
from rocketpipe.auth.plain.yaml import Fields, Node, Text, Texts, YamlRefused, read_yaml
from rocketpipe.auth.plain_perms import PERMS, perm_entries, perm_entry
from rocketpipe.auth.policy import Entry, Kind, Part, Policy
from rocketpipe.auth.secret import LEAST_CHARACTERS, LEAST_ON_THE_WIRE, Secret, check_secret
from rocketpipe.auth.subject import SUBJECT_PREFIX, User, UserType, check_user
from rocketpipe.auth.users import MAX_USERS
from rocketpipe.errors import InvalidName, RocketPipeError
from rocketpipe.model.names import is_retry_topic

#: The name that the file has with RocketMQ.
PLAIN_ACL: Final = "plain_acl.yml"

_GLOBAL: Final = "globalWhiteRemoteAddresses"
_TOP: Final = (_GLOBAL, "accounts", "dataVersion")
_OF_ACCOUNT: Final = (
    "accessKey",
    "secretKey",
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)
_YES: Final = frozenset({"true", "yes", "on"})
_NO: Final = frozenset({"false", "no", "off"})
_MAX_NAMED: Final = 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to know of a line, or of the whole file: line 0."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


class PlainAclRefused(RocketPipeError):
    """A file that is not taken, with everything that is wrong with it."""

    def __init__(self, origin: str, faults: Sequence[Remark], hint: str = "") -> None:
        shown = [f"{origin} {each}" for each in faults[:_MAX_NAMED]]
        if len(faults) > _MAX_NAMED:
            shown.append(f"{origin}: {len(faults) - _MAX_NAMED} more")
        super().__init__("\n".join([*shown, *filter(None, [hint])]))
        self.faults = tuple(faults)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAccount:
    """One account."""

    user: User
    policy: Policy
    line: int
    is_weak: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAcl:
    """A whole file."""

    accounts: tuple[PlainAccount, ...]
    #: What let people in without a login, and does no more.
    doors: tuple[Remark, ...] = ()
    #: What is not the same as before.
    remarks: tuple[Remark, ...] = ()


def read_plain_acl(data: bytes, origin: str = PLAIN_ACL) -> PlainAcl:
    """Read a file.

    Raises:
        PlainAclRefused: If anything in it is not as it should be.
    """
    reader = _Reader()
    try:
        top = read_yaml(data)
    except YamlRefused as error:
        raise PlainAclRefused(origin, [Remark(error.line, error.reason)]) from error
    found = reader.whole(top)
    if reader.faults:
        raise PlainAclRefused(origin, sorted(reader.faults, key=lambda each: each.line))
    return found


class _Reader:
    """Reads on after a fault, so that all of them are told at once."""

    def __init__(self) -> None:
        self.faults: list[Remark] = []
        self._doors: list[Remark] = []
        self._remarks: list[Remark] = []

    def whole(self, top: Fields) -> PlainAcl:
        self._check_keys(top, _TOP)
        for text in self._texts(top, _GLOBAL):
            self._doors.append(
                Remark(
                    text.line,
                    f"{_GLOBAL} {text.value!r}: who came from there was let in without a login, "
                    "and needs one now",
                )
            )
        accounts: dict[str, PlainAccount] = {}
        for node in self._list(top, "accounts"):
            if not isinstance(node, Fields):
                self._fault(node.line, "an account has keys: accessKey, secretKey and others")
                continue
            account = self._account(node)
            if account is None:
                continue
            if (before := accounts.get(account.user.name)) is not None:
                self._fault(
                    account.line, f"account {before.user.name!r} is in line {before.line} already"
                )
            accounts[account.user.name] = account
        if len(accounts) > MAX_USERS:
            self._fault(top.line, f"{len(accounts)} accounts: {MAX_USERS} are the most")
        return PlainAcl(
            accounts=tuple(accounts.values()),
            doors=tuple(self._doors),
            remarks=tuple(self._remarks),
        )

    def _account(self, node: Fields) -> PlainAccount | None:
        self._check_keys(node, _OF_ACCOUNT)
        key = self._text(node, "accessKey")
        if key.value is None:
            self._fault(key.line, "an account without accessKey")
            return None
        name = key.value
        self._try(key.line, lambda: check_user(name))
        what = f"account {name[:64]!r}"
        given = self._text(node, "secretKey")
        secret = self._try(
            given.line, lambda: check_secret(given.value or "", least=LEAST_ON_THE_WIRE), what
        )
        is_super = self._truth(node, "admin")
        sources = self._sources(node, what, is_super=is_super)
        entries = {
            Part.CUSTOM: [
                *self._perms(node, "topicPerms", Kind.TOPIC, sources, what),
                *self._perms(node, "groupPerms", Kind.GROUP, sources, what),
            ],
            Part.DEFAULT: [
                *self._default(node, "defaultTopicPerm", Kind.TOPIC, sources, what),
                *self._default(node, "defaultGroupPerm", Kind.GROUP, sources, what),
            ],
        }
        if is_super and entries[Part.CUSTOM]:
            self._remarks.append(
                Remark(node.line, f"{what}: admin with lists of its own: Super is not held to them")
            )
        is_weak = secret is not None and len(secret.reveal()) < LEAST_CHARACTERS
        policy = Policy(subject=SUBJECT_PREFIX + name)
        for part, some in entries.items():
            if some:
                policy = policy.with_entries(part, some)
        return PlainAccount(
            user=User(
                name=name,
                secret=secret or Secret(""),
                type=UserType.SUPER if is_super else UserType.NORMAL,
            ),
            policy=policy,
            line=node.line,
            is_weak=is_weak,
        )

    def _sources(self, node: Fields, what: str, *, is_super: bool) -> tuple[str, ...]:
        given = self._text(node, "whiteRemoteAddress")
        if not (given.value or "").strip():
            return ()
        shown = f"{what}: whiteRemoteAddress {given.value!r}"
        try:
            found = read_addresses(given.value or "")
        except ValueError as error:
            self._fault(given.line, f"{what}: {error}")
            return ()
        if found is None:
            self._doors.append(
                Remark(given.line, f"{shown}: whoever named this account was let in unsigned")
            )
            return ()
        now = "wherever it is" if is_super else "and has its rights from nowhere else"
        self._remarks.append(
            Remark(given.line, f"{shown}: from there nobody had to sign; now it signs, {now}")
        )
        return found

    def _perms(
        self, node: Fields, key: str, kind: Kind, sources: tuple[str, ...], what: str
    ) -> list[Entry]:
        found: dict[str, Entry] = {}
        for text in self._texts(node, key):
            pair = text.value or ""
            name, equals, perm = pair.partition("=")
            if equals and perm not in PERMS:
                self._misspelt(text.line, f"{what}: {key} {pair[:120]!r}", perm)
                continue
            # A retry topic is its group's, here as there.
            meant = Kind.GROUP if is_retry_topic(name) else kind
            read = self._try(text.line, _reading(meant, pair, sources), f"{what}: {key}")
            if read is None:
                continue
            if name in found:
                self._fault(text.line, f"{what}: {key} has {name!r} twice")
            found[name] = read
        return list(found.values())

    def _default(
        self, node: Fields, key: str, kind: Kind, sources: tuple[str, ...], what: str
    ) -> list[Entry]:
        given = self._text(node, key)
        if given.value is None:
            return []
        if given.value not in PERMS:
            self._misspelt(given.line, f"{what}: {key}", given.value)
            return []
        return [perm_entry(kind, "*", given.value, sources)]

    def _misspelt(self, line: int, what: str, perm: str) -> None:
        near = {text.replace(" ", "").upper(): text for text in PERMS}.get(
            perm.replace(" ", "").replace(",", "|").upper()
        )
        self._fault(
            line,
            f"{what}: {perm[:40]!r} is no permission, and would have opened a door: RocketMQ 4.9 "
            "takes it for DENY, and the migration of RocketMQ 5 allows everything. Write "
            + (near or f"one of {', '.join(PERMS)}"),
        )

    def _truth(self, node: Fields, key: str) -> bool:
        given = self._text(node, key)
        word = (given.value or "false").lower()
        if word not in _YES | _NO:
            self._fault(given.line, f"{key}: {given.value!r} is neither true nor false")
        return word in _YES

    def _text(self, node: Fields, key: str) -> Text:
        found = node.items.get(key)
        if found is None or isinstance(found, Text):
            return found or Text(None, node.line)
        self._fault(found.line, f"{key} is one text")
        return Text(None, found.line)

    def _texts(self, node: Fields, key: str) -> list[Text]:
        found = []
        for each in self._list(node, key):
            if isinstance(each, Text) and each.value is not None:
                found.append(each)
            else:
                self._fault(each.line, f"{key} is a list of texts")
        return found

    def _list(self, node: Fields, key: str) -> tuple[Node, ...]:
        found = node.items.get(key)
        if found is None or (isinstance(found, Text) and found.value is None):
            return ()
        if isinstance(found, Texts):
            return found.items
        self._fault(found.line, f"{key} is a list: a line with - for each")
        return ()

    def _check_keys(self, node: Fields, known: Collection[str]) -> None:
        for key, line in node.lines.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"these are {', '.join(known)}"
                self._fault(line, f"{key} is no key here: {hint}")

    def _try(self, line: int, read: Callable[[], T], what: str = "") -> T | None:
        try:
            return read()
        except (ValueError, InvalidName) as error:
            self._fault(line, f"{what}: {error}" if what else str(error))
            return None

    def _fault(self, line: int, text: str) -> None:
        self.faults.append(Remark(line, text))


def _reading(kind: Kind, pair: str, sources: tuple[str, ...]) -> Callable[[], Entry]:
    return lambda: perm_entries(kind, [pair], sources)[0]
