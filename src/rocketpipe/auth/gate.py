"""The one place that says who is let in, and what they may do.

    admit   who asks, by a signature over this very request: nothing is known from the last one
    allow   whether they may do what they ask
    cleared both at once, for the frames of a fast path; what is not cleared is for the router

Who is unknown, disabled or signs wrongly is told the same, after the same work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hmac import compare_digest
from typing import Any, Final

from rocketpipe.auth.auditing.audit import CHANGES, Audit, subjects_of
from rocketpipe.auth.behalf import FROM_ADDRESS, MAX_ADDRESS, is_sealed
from rocketpipe.auth.call_signature import (
    AUTHORIZATION,
    DATE_TIME,
    SESSION_TOKEN,
    is_timely,
    read_authorization,
)
from rocketpipe.auth.failures import MAX_ON_CONNECTION, Failures
from rocketpipe.auth.frames import Grant, Signer, clear_run
from rocketpipe.auth.needs import Surroundings, publishing, reading, unlisted, wants
from rocketpipe.auth.plain.file import PlainAclFile
from rocketpipe.auth.policy import Verdict, Wanted, decide
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.signature import (
    ACCESS_KEY,
    SIGNATURE,
    SIGNATURE_CHARACTERS,
    TOKEN,
    SigningKey,
    sign_date,
    verifies,
)
from rocketpipe.auth.subject import MAX_NAME, SUBJECT_PREFIX, User
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.names import is_inner_topic
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.request import Request
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import NotGuarded

#: So much of a name that was not known is said again.
_MAX_SHOWN: Final = 64
#: So many names are remembered that nobody has.
_MAX_STRANGERS: Final = 1024
#: So many grants are remembered of one connection.
_MAX_GRANTS: Final = 1024
_SENDS: Final = frozenset(
    map(
        int,
        (
            RequestCode.SEND_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.SEND_BATCH_MESSAGE,
        ),
    )
)


class LoginRefused(RequestRejected):
    """Nobody is let in by that."""

    def __init__(self, remark: str, *, is_flood: bool) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        #: Whether so many failed from that address that the connection should end.
        self.is_flood = is_flood


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks, as a signature showed."""

    name: str
    is_super: bool
    #: Where the request comes from: the address, and its host alone.
    address: str
    host: str
    #: Where somebody is said to be for whom it asks: what is not allowed from there is not, either.
    also_from: str = ""


@dataclass(slots=True)
class _Visit:
    """What is remembered of a connection; it dies with it."""

    host: str
    failures: int = 0
    #: Who was told of in the audit.
    seen: set[str] = field(default_factory=set)
    #: What these versions of the tables granted.
    grants: set[Grant] = field(default_factory=set)
    users: object = None
    policies: object = None


class _Known:
    """A user with its keys ready."""

    __slots__ = ("key", "old", "old_until_ms", "user")

    def __init__(self, user: User) -> None:
        self.user = user
        self.key = SigningKey(user.secret)
        #: Good until then.
        self.old = SigningKey(user.old.secret) if user.old is not None else None
        self.old_until_ms = user.old.until_ms if user.old is not None else 0


class Gate:
    """Lets requests in, or not."""

    def __init__(
        self,
        users: UserTable,
        policies: PolicyTable,
        *,
        authorizes: bool = True,
        around: Surroundings | None = None,
        open_codes: frozenset[int] = frozenset(),
        clock: Clock | None = None,
        failures: Failures | None = None,
        audit: Audit | None = None,
        accounts: PlainAclFile | None = None,
        inner_user: str = "",
        inner_secret: Secret | None = None,
    ) -> None:
        """``open_codes`` are answered to strangers too, as far as everybody may have that.

        ``accounts`` is a file that lends users to the tables, to be followed while it serves.
        ``inner_user`` is the one by which servers, and nobody else, ask others; by
        ``inner_secret`` a console of theirs proves where people are.
        """
        self.users = users
        self.policies = policies
        self.around = around or Surroundings()
        self._authorizes = authorizes
        self._open_codes = open_codes
        self._clock = clock or SystemClock()
        self.failures = failures or Failures(self._clock)
        self.audit = audit or Audit()
        self.accounts = accounts
        self.inner_user = inner_user
        self._inner_secret = inner_secret
        #: Refused for want of a right, in all.
        self.denied = 0
        self._known: dict[str, _Known] = {}
        #: The same for the frames of a fast path.
        self.signers: dict[str, Signer] = {}
        #: Names among these that nobody has.
        self._strangers: set[str] = set()
        self._known_by: object = None
        self._nobody = SigningKey(Secret.generate())
        self._unknown = Signer(Secret.generate(), lets_in=False, does_all=False)

    async def follow(self) -> None:
        """Take up what changes in files of others, for ever."""
        if self.accounts is not None:
            await self.accounts.follow(self._clock)

    def check_served(self, kinds: Iterable[type[Request[Any]]]) -> None:
        """Refuse a server that answers what nobody said the needs of.

        Raises:
            NotGuarded: If there is such a request.
        """
        missing = unlisted(kinds)
        if missing:
            raise NotGuarded(", ".join(sorted(kind.__name__ for kind in missing)))

    def admit(self, command: Command, peer: PeerConnection) -> Principal | None:
        """Say who asks; None for a stranger, where strangers are answered.

        Raises:
            RequestRejected: If nobody asks whom this server knows.
        """
        fields = command.fields
        name, signature = fields.get(ACCESS_KEY, ""), fields.get(SIGNATURE, "")
        if not name:
            if command.code in self._open_codes:
                return None
            raise self._stranger(peer, command, "", "no AccessKey: sign the request")
        if fields.get(TOKEN):
            raise self._stranger(peer, command, name, "a SecurityToken is of no use here")
        if len(signature) != SIGNATURE_CHARACTERS:
            raise self._stranger(peer, command, name, "the Signature is none")
        found = self._verified(name, command)
        if found is None and self.users.look():
            # Another process of this directory has just made it, or given it another secret.
            found = self._verified(name, command)
        if found is None:
            raise self._stranger(
                peer, command, name, "there is no such user, it is disabled, or signs wrongly"
            )
        visit = _visit_of(peer)
        if name not in visit.seen:
            visit.seen.add(name)
            self.audit.came(name, peer.address)
        place = fields.get(FROM_ADDRESS, "")[:MAX_ADDRESS]
        if not place:
            return Principal(name, found.user.is_super, peer.address, visit.host)
        if is_sealed(fields, name, self._inner_secret):
            return Principal(name, found.user.is_super, place, place)
        return Principal(name, found.user.is_super, peer.address, visit.host, also_from=place)

    def _verified(self, name: str, command: Command) -> _Known | None:
        found = self._find(name)
        good = False
        for key in self._keys(found):
            good |= verifies(key, command.fields, command.body, command.version)
        return found if good and found is not None and found.user.is_enabled else None

    def admit_call(self, metadata: Mapping[str, str], address: str, rpc: str) -> Principal:
        """Say who calls by gRPC; see ``call_signature``.

        Raises:
            LoginRefused: If nobody calls whom this server knows.
        """
        name, signature = read_authorization(metadata.get(AUTHORIZATION, ""))
        stamp, host = metadata.get(DATE_TIME, ""), host_of(address)
        found = self._find(name) if name else None
        good = False
        for key in self._keys(found):
            good |= compare_digest(sign_date(key, stamp[:_MAX_SHOWN]), signature.rjust(40)[:40])
        reason = "there is no such user, it is disabled, or signs wrongly"
        if not name:
            reason = f"no Credential: give the client an access key ({AUTHORIZATION})"
        elif metadata.get(SESSION_TOKEN):
            reason = "a session token is of no use here"
        elif good and not is_timely(stamp, self._clock.now_ms()):
            reason = f"{DATE_TIME} is not of now: set the clock"
        elif good and found is not None and found.user.is_enabled:
            return Principal(name, found.user.is_super, address, host)
        shown = name[:_MAX_SHOWN]
        self.failures.failed(host, reason.partition(":")[0])
        self.audit.refused(shown, address, rpc, "", reason)
        who = f"{SUBJECT_PREFIX}{shown} is not let in" if name else "nobody is let in unnamed"
        raise LoginRefused(f"{who}: {reason}.", is_flood=self.failures.is_flooded(host))

    def allow(
        self, by: Principal | None, asked: Request[Any], around: Surroundings | None = None
    ) -> None:
        """Let somebody do what they ask; ``around`` is known of this request alone.

        Raises:
            RequestRejected: If they may not.
        """
        changes = type(asked) in CHANGES
        wanted: list[Wanted] = []
        if changes or by is None or not (by.is_super or not self._authorizes):
            wanted = wants(asked, around or self.around)
        for each in wanted:
            self._check(by, asked, each)
        if changes and by is not None:
            about = " ".join([*sorted({str(each) for each in wanted}), *subjects_of(asked)])
            self.audit.did(by.name, by.address, type(asked).__name__, about)

    def allow_still(self, by: Principal | None, asked: Request[Any]) -> None:
        """The same for somebody who was admitted a while ago: they may have gone since.

        Raises:
            RequestRejected: If they may not, or are let in no more.
        """
        if by is None:
            self.allow(None, asked)
            return
        now = self._as_of_now(by)
        if now is None:
            reason = "it was disabled or deleted meanwhile"
            self.audit.refused(by.name, by.address, type(asked).__name__, "", reason)
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, f"{SUBJECT_PREFIX}{by.name} is not let in: {reason}."
            )
        self.allow(now, asked)

    def may_publish(self, by: Principal | None, topic: str) -> bool:
        """Tell whether somebody who was admitted a while ago may send to a topic now."""
        now = None if by is None else self._as_of_now(by)
        if now is None:
            return False
        return (now.is_super or not self._authorizes) or all(
            self._decided(now, each).allowed for each in publishing(topic)
        )

    def _as_of_now(self, by: Principal) -> Principal | None:
        user = self.users.get(by.name)
        if user is None or not user.is_enabled:
            return None
        return by if user.is_super is by.is_super else replace(by, is_super=user.is_super)

    def cleared(
        self,
        buffer: bytes,
        frames: list[Frame],
        start: int,
        peer: PeerConnection,
        *,
        sends_only: bool = False,
    ) -> int:
        """Give the number of the first frame, from ``start`` on, that may not enter a fast path.

        Every signature is checked; what is remembered is what was granted, by these versions of
        users and rights.
        """
        users, policies = self.users.version, self.policies.version
        if users is not self._known_by:
            self._forget_keys()
        visit: _Visit = peer.visit or _visit_of(peer)
        if visit.users is not users or visit.policies is not policies:
            visit.grants.clear()
            visit.users, visit.policies = users, policies
        return clear_run(buffer, frames, start, sends_only, self, visit)

    def signer(self, name: str) -> Signer:
        """Give who signs by this name; of a name that nobody has one who is not let in."""
        user = self.users.get(name)
        if user is None:
            # Remembered as others are, or the time that it takes would tell who there is.
            if len(self._strangers) >= _MAX_STRANGERS:
                for stranger in self._strangers:
                    self.signers.pop(stranger, None)
                self._strangers.clear()
            if len(name) <= MAX_NAME:
                self._strangers.add(name)
                self.signers[name] = self._unknown
            return self._unknown
        old = user.old
        signer = self.signers[name] = Signer(
            user.secret,
            lets_in=user.is_enabled,
            does_all=user.is_super or not self._authorizes,
            old=None if old is None else old.secret,
            old_until_ms=0 if old is None else old.until_ms,
        )
        return signer

    def is_before(self, moment_ms: int) -> bool:
        """Tell whether that moment is yet to come."""
        return self._clock.now_ms() < moment_ms

    def grants(self, visit: _Visit, grant: Grant) -> bool:
        """Tell whether the user may, for a fast path, and remember it if so."""
        code, name, topic, group = grant
        if is_inner_topic(topic):
            return False  # the router knows whose that is
        wanted = publishing(topic) if code in _SENDS else reading(topic, group)
        policy = self.policies.get(SUBJECT_PREFIX + name)
        if not all(decide(policy, each, visit.host).allowed for each in wanted):
            return False
        if len(visit.grants) >= _MAX_GRANTS:
            visit.grants.clear()
        visit.grants.add(grant)
        return True

    def _check(self, by: Principal | None, asked: Request[Any], wanted: Wanted) -> None:
        if by is None:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, f"no AccessKey: {wanted} is not for everybody"
            )
        if by.is_super or not self._authorizes:
            return
        verdict = self._decided(by, wanted)
        if not verdict.allowed and self.policies.look():
            verdict = self._decided(by, wanted)
        if verdict.allowed:
            return
        self.denied += 1
        self.audit.refused(by.name, by.address, type(asked).__name__, str(wanted), verdict.reason)
        takes = " or ".join(sorted(action.value for action in wanted.actions))
        raise RequestRejected(
            ResponseCode.NO_PERMISSION,
            f"{SUBJECT_PREFIX}{by.name} has no permission to access {wanted} from "
            f"{' for '.join(filter(None, (by.host, by.also_from)))}, "
            f"{verdict.reason} (it takes {takes}).",
        )

    def _decided(self, by: Principal, wanted: Wanted) -> Verdict:
        policy = self.policies.get(SUBJECT_PREFIX + by.name)
        verdict = decide(policy, wanted, by.host)
        if verdict.allowed and by.also_from:
            verdict = decide(policy, wanted, by.also_from)
        return verdict

    def _stranger(
        self, peer: PeerConnection, command: Command, name: str, reason: str
    ) -> RequestRejected:
        visit, shown = _visit_of(peer), name[:_MAX_SHOWN]
        visit.failures += 1
        self.failures.failed(visit.host, reason.partition(":")[0])
        self.audit.refused(shown, peer.address, f"code {command.code}", "", reason)
        if visit.failures >= MAX_ON_CONNECTION or self.failures.is_flooded(visit.host):
            peer.close()
        who = f"{SUBJECT_PREFIX}{shown} is not let in" if name else "nobody is let in unnamed"
        return RequestRejected(ResponseCode.NO_PERMISSION, f"{who}: {reason}.")

    def secrets_of(self, user: User) -> list[Secret]:
        """The secrets that are a user's now; none of one who is disabled."""
        if not user.is_enabled:
            return []
        old = user.old
        is_valid = old is not None and self._clock.now_ms() < old.until_ms
        return [user.secret, *([old.secret] if old is not None and is_valid else [])]

    def _keys(self, found: _Known | None) -> tuple[SigningKey, ...]:
        if found is None or not found.user.is_enabled:
            return (self._nobody,)
        if found.old is not None and self._clock.now_ms() < found.old_until_ms:
            return (found.key, found.old)
        return (found.key,)

    def _find(self, name: str) -> _Known | None:
        if self.users.version is not self._known_by:
            self._forget_keys()
        known = self._known.get(name)
        if known is None:
            user = self.users.get(name)
            if user is None:
                return None
            known = self._known[name] = _Known(user)
        return known

    def _forget_keys(self) -> None:
        # Taken first: what changes in between is found with the next request.
        self._known_by = self.users.version
        self._known = {}
        self.signers = {}
        self._strangers = set()


def _visit_of(peer: PeerConnection) -> _Visit:
    visit: _Visit | None = peer.visit
    if visit is None:
        visit = peer.visit = _Visit(host_of(peer.address))
    return visit


def host_of(address: str) -> str:
    """``host:port`` or ``[v6]:port`` → the host alone."""
    host, _, _ = address.rpartition(":")
    return (host or address).removeprefix("[").removesuffix("]")
