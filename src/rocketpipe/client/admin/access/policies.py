"""What users may do: entries that allow and deny, and why something is allowed or not.

A server has one entry for a resource in each part of a policy. So a grant adds its actions to those
that are there, and one that says the opposite, or is for other sources, is refused unless it is to
take their place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rocketpipe.auth.explaining import Answer, explain
from rocketpipe.auth.infos import acl_info, read_policy
from rocketpipe.auth.policy import (
    Action,
    Breadth,
    Decision,
    Entry,
    Kind,
    Part,
    Policy,
    Resource,
    check_address,
    check_source,
    parse_action,
)
from rocketpipe.auth.subject import SUBJECT_PREFIX, check_user
from rocketpipe.client.admin.access.explanation import Explanation
from rocketpipe.client.admin.access.servers import (
    AccessServers,
    Change,
    NotKept,
    ask_all,
    change_all,
    seen,
)
from rocketpipe.client.admin.access.users import UserAdmin
from rocketpipe.errors import AccessDenied, InvalidName, RocketPipeError
from rocketpipe.model.names import DLQ_PREFIX, RETRY_PREFIX, check_group, check_topic
from rocketpipe.protocol.requests.users import (
    AclInfo,
    CreateAcl,
    DeleteAcl,
    GetAcl,
    ListAcls,
)

#: Every action but the one that stands for all.
EACH_ACTION: Final = frozenset(Action) - {Action.ALL}


class EntryInTheWay(RocketPipeError):
    """A resource has an entry that says something else than the one to be granted."""

    def __init__(self, user: str, there: Entry) -> None:
        self.hint = "revoke that first, or say --replace to put this one in its place"
        super().__init__(f"{user!r} has {there}: {self.hint}")


class NothingToRevoke(RocketPipeError):
    """A user has no entry about this resource."""

    def __init__(self, user: str, resources: Sequence[str], actions: Sequence[str]) -> None:
        self.hint = f"`rocketpipe acl list {user}` has what there is"
        named = f" about {', '.join(resources)}" if resources else ""
        which = f" with {', '.join(actions)}" if actions else ""
        super().__init__(f"{user!r} has no entry{named}{which}: {self.hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedEntry:
    """One entry of a user, and which servers have it just so."""

    user: str
    part: Part
    entry: Entry
    servers: tuple[str, ...]
    missing: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """It, as lists and texts."""
        return {
            "user": self.user,
            "part": self.part.value,
            "resource": str(self.entry.resource),
            "actions": [action.value for action in Action if action in self.entry.actions],
            "from": list(self.entry.sources),
            "decision": self.entry.decision.value,
            "missing_at": list(self.missing),
        }


def entries_of(
    resources: Sequence[str], actions: Sequence[str], sources: Sequence[str] = (), *, deny: bool
) -> list[Entry]:
    """Entries about resources such as ``Topic:orders*``.

    Raises:
        ValueError: If a resource, an action or a source is none.
    """
    if not resources or not actions:
        raise ValueError("at least one resource and one action are needed")
    return [
        Entry(
            resource=_known(Resource.parse(text)),
            actions=frozenset(map(parse_action, actions)),
            sources=tuple(map(check_source, sources)),
            decision=Decision.DENY if deny else Decision.ALLOW,
        )
        for text in resources
    ]


class PolicyAdmin:
    """Grants, revokes, lists and explains what users may do, at every server that has some."""

    def __init__(self, servers: AccessServers, users: UserAdmin) -> None:
        self._servers = servers
        self._users = users

    def at(self, servers: Mapping[str, str]) -> PolicyAdmin:
        """The same, at these servers alone, which are given by name and address."""
        return PolicyAdmin(self._servers.at(servers), self._users.at(servers))

    async def all(self, user: str = "", resource: str = "") -> list[GrantedEntry]:
        """Every entry, of one user or of all, whose resource contains something.

        Raises:
            NoUser: If there is no such user.
            NoAccessControl: If no server has users.
        """
        if user:
            await self._users.show(user)
        subject = SUBJECT_PREFIX + user
        replies = await ask_all(
            self._servers, ListAcls(subject_filter=subject, resource_filter=resource or None)
        )
        at: dict[tuple[str, Part, Entry], list[str]] = {}
        for server, reply in replies.items():
            for info in reply.acls or ():
                if user and info.subject != subject:
                    continue
                policy = _policy(server, info)
                for part in Part:
                    for entry in policy.of(part):
                        if resource in str(entry.resource):
                            at.setdefault((policy.subject, part, entry), []).append(server)
        return [
            GrantedEntry(
                user=subject.removeprefix(SUBJECT_PREFIX),
                part=part,
                entry=entry,
                servers=tuple(servers),
                missing=tuple(server for server in replies if server not in servers),
            )
            for (subject, part, entry), servers in sorted(at.items(), key=_in_order)
        ]

    async def of(self, user: str) -> dict[str, Policy]:
        """What one user may do, by server, of those that answer.

        Raises:
            NoAccessControl: If no server has users.
            RocketPipeError: What they failed with, if none answers.
        """
        subject = SUBJECT_PREFIX + check_user(user)
        replies = await ask_all(self._servers, GetAcl(subject=subject), {})
        return {
            server: _policy(server, reply.acl) if reply.acl else Policy(subject=subject)
            for server, reply in replies.items()
        }

    async def grant(
        self,
        user: str,
        resources: Sequence[str],
        actions: Sequence[str],
        *,
        sources: Sequence[str] = (),
        deny: bool = False,
        replace_others: bool = False,
        dry_run: bool = False,
    ) -> Change:
        """Allow, or deny, something beside what is there: ``["Topic:orders*"]``, ``["Pub"]``.

        Raises:
            ValueError: If a resource, an action or a source is none.
            NoUser: If there is no such user.
            EntryInTheWay: If a resource has an entry that says something else.
            PartlyDone: If some servers did it, and others did not.
        """
        entries = entries_of(resources, actions, sources, deny=deny)

        def wanted(policy: Policy) -> Policy:
            there = {each.resource: each for each in policy.of(Part.CUSTOM)}
            new = [
                each if replace_others else _joined(user, there.get(each.resource), each)
                for each in entries
            ]
            return policy.with_entries(Part.CUSTOM, new)

        return await self._change(user, wanted, dry_run=dry_run)

    async def put(
        self, user: str, policies: Policy, *, keep_others: bool = True, dry_run: bool = False
    ) -> Change:
        """Have a user be allowed what a policy says, whatever was said of the same resources.

        Raises:
            NoUser: If there is no such user.
            PartlyDone: If some servers did it, and others did not.
        """

        def wanted(policy: Policy) -> Policy:
            if not keep_others:
                return replace(policies, subject=policy.subject)
            for part, entries in policies.entries.items():
                policy = policy.with_entries(part, entries)
            return policy

        return await self._change(user, wanted, dry_run=dry_run)

    async def revoke(
        self,
        user: str,
        resources: Sequence[str] = (),
        actions: Sequence[str] = (),
        *,
        part: Part | None = None,
        dry_run: bool = False,
    ) -> Change:
        """Take back what is said of resources, or some actions of it; without any, everything.

        ``part`` is the part of policies that is meant; else it is both.

        Raises:
            ValueError: If a resource or an action is none.
            NoUser: If there is no such user.
            NothingToRevoke: If nothing is said of them.
            PartlyDone: If some servers did it, and others did not.
        """
        meant = [Resource.parse(text) for text in resources]
        these = frozenset(map(parse_action, actions))
        known = await self.of(user)
        await self._users.show(user)
        parts = tuple(Part) if part is None else (part,)
        if not any(
            _without(entry, meant, these) != entry
            for policy in known.values()
            for each in parts
            for entry in policy.of(each)
        ):
            raise NothingToRevoke(user, resources, actions)

        def wanted(policy: Policy) -> Policy:
            kept = {
                each: tuple(
                    left
                    for entry in policy.of(each)
                    if (left := _without(entry, meant, these) if each in parts else entry)
                )
                for each in Part
            }
            return Policy(
                subject=policy.subject, entries={part: some for part, some in kept.items() if some}
            )

        return await self._change(user, wanted, dry_run=dry_run)

    async def explain(
        self, user: str, asked: Sequence[tuple[str, str]], *, source: str = ""
    ) -> Explanation:
        """Say whether a user may do something, such as ``[("Pub", "Topic:orders")]``, and why.

        Raises:
            ValueError: If an action, a resource or the source is none.
            NoUser: If there is no such user.
            NoAccessControl: If no server has users.
        """
        wanted = [(*_named(resource), parse_action(action)) for action, resource in asked]
        if source:
            source = check_address(source)
        state = await self._users.show(user)
        grouped: dict[Answer, list[str]] = {}
        for server, policy in (await self.of(user)).items():
            answer = explain(policy, wanted, source) if server in state.servers else Answer(())
            grouped.setdefault(answer, []).append(server)
        return Explanation(
            user=state,
            answers=tuple((tuple(servers), answer) for answer, servers in grouped.items()),
        )

    async def _change(
        self, user: str, wanted: Callable[[Policy], Policy], *, dry_run: bool
    ) -> Change:
        subject = SUBJECT_PREFIX + check_user(user)
        await self._users.show(user)

        async def now(server: str) -> Policy:
            reply = await self._servers.call(server, GetAcl(subject=subject))
            return _policy(server, reply.acl) if reply.acl else Policy(subject=subject)

        async def act(server: str) -> bool:
            before = await now(server)
            after = wanted(before)
            if _sets(after) == _sets(before):
                return False
            if not dry_run:
                await self._put(server, before, after)
                await _see(server, user, lambda: now(server), after)
            return True

        return await change_all(self._servers, act, about=user)

    async def _put(self, server: str, before: Policy, after: Policy) -> None:
        """Make one policy of another: what is gone is taken back first, so nothing is too wide."""
        for part in Part:
            left = {each.resource for each in after.of(part)}
            for entry in before.of(part):
                if entry.resource not in left:
                    request = DeleteAcl(
                        subject=after.subject,
                        policy_type=part.value,
                        resource=str(entry.resource),
                    )
                    await self._servers.call(server, request)
        changed = Policy(
            subject=after.subject,
            entries={
                part: some
                for part in Part
                if (some := tuple(each for each in after.of(part) if each not in before.of(part)))
            },
        )
        if changed.entries:
            info = acl_info(changed)
            await self._servers.call(server, CreateAcl(subject=after.subject, acl=info))


async def _see(server: str, user: str, now: Callable[[], Awaitable[Policy]], after: Policy) -> None:
    async def look() -> bool:
        try:
            return _sets(await now()) == _sets(after)
        except AccessDenied as error:
            if error.user != user:
                raise
            return True  # it was about who asks, who may not look any more

    if not await seen(look):
        raise NotKept(server, f"tells of other rights of {user!r}")


def _known(resource: Resource) -> Resource:
    """Refuse a resource that no request would ever be about."""
    name = resource.name
    if resource.kind is Kind.TOPIC and name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        group = name.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
        raise ValueError(f"{name} counts as its group, and not as a topic: name Group:{group}")
    if resource.breadth is Breadth.LITERAL:
        try:
            if resource.kind is Kind.TOPIC:
                check_topic(name)
            elif resource.kind is Kind.GROUP:
                check_group(name)
        except InvalidName as error:
            raise ValueError(str(error)) from error
    return resource


def _named(text: str) -> tuple[Kind, str]:
    resource = Resource.parse(text)
    if resource.breadth is not Breadth.LITERAL:
        raise ValueError(f"{text[:80]!r} is many: ask about one topic, group or cluster")
    return resource.kind, resource.name


def _joined(user: str, there: Entry | None, new: Entry) -> Entry:
    if there is None or there == new:
        return new
    if there.decision is not new.decision or set(there.sources) != set(new.sources):
        raise EntryInTheWay(user, there)
    return replace(there, actions=there.actions | new.actions)


def _without(
    entry: Entry, resources: Sequence[Resource], actions: frozenset[Action]
) -> Entry | None:
    if resources and entry.resource not in resources:
        return entry
    if not actions or Action.ALL in actions:
        return None
    there = EACH_ACTION if Action.ALL in entry.actions else entry.actions
    if there.isdisjoint(actions):
        return entry
    left = there - actions
    return replace(entry, actions=left) if left else None


def _policy(server: str, info: AclInfo) -> Policy:
    try:
        return read_policy(info)
    except (ValueError, RocketPipeError) as error:
        raise NotKept(server, f"tells of rights that are none ({error})") from error


def _sets(policy: Policy) -> set[tuple[Part, Entry]]:
    return {
        (part, replace(entry, sources=tuple(sorted(entry.sources))))
        for part in Part
        for entry in policy.of(part)
    }


def _in_order(item: tuple[tuple[str, Part, Entry], list[str]]) -> tuple[str, str, str, str]:
    (subject, part, entry), _ = item
    return (subject, part.value, str(entry.resource), entry.decision.value)
