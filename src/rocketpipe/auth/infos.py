"""Users and policies as they travel, to and from what this room has."""

from __future__ import annotations

from rocketpipe.auth.policy import (
    Decision,
    Entry,
    Part,
    Policy,
    Resource,
    check_source,
    parse_action,
)
from rocketpipe.auth.secret import HIDDEN
from rocketpipe.auth.subject import (
    SUBJECT_PREFIX,
    User,
    UserStatus,
    UserType,
    user_of_subject,
)
from rocketpipe.protocol.requests.users import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo


def user_info(user: User) -> UserInfo:
    """Tell of a user; its secret is not told."""
    return UserInfo(
        username=user.name,
        password=HIDDEN,
        user_type=user.type.value,
        user_status=user.status.value,
        old_password_until=user.old.until_ms if user.old is not None else None,
    )


def read_type(text: str | None) -> UserType | None:
    """Read a user's type in whatever case; None if nothing is said.

    Raises:
        ValueError: If it is none.
    """
    if not text:
        return None
    for each in UserType:
        if each.value.lower() == text.strip().lower():
            return each
    raise ValueError(f"{text[:40]!r} is no type of user: Super or Normal")


def read_status(text: str | None) -> UserStatus | None:
    """Read a user's status in whatever case; None if nothing is said.

    Raises:
        ValueError: If it is none.
    """
    if not text:
        return None
    for each in UserStatus:
        if each.value == text.strip().lower():
            return each
    raise ValueError(f"{text[:40]!r} is no status of a user: enable or disable")


def acl_info(policy: Policy, resource_filter: str = "") -> AclInfo:
    """Tell of a policy, or of those entries whose resources contain something."""
    parts = [
        PolicyInfo(
            policy_type=part.value,
            entries=tuple(
                PolicyEntryInfo(
                    resource=str(entry.resource),
                    actions=tuple(sorted(action.value for action in entry.actions)),
                    source_ips=entry.sources or None,
                    decision=entry.decision.value,
                )
                for entry in policy.of(part)
                if resource_filter in str(entry.resource)
            ),
        )
        for part in Part
    ]
    return AclInfo(subject=policy.subject, policies=tuple(part for part in parts if part.entries))


def read_part(text: str | None) -> Part:
    """Read which part of a policy is meant; the subject's own if nothing is said.

    Raises:
        ValueError: If it is none.
    """
    if not text:
        return Part.CUSTOM
    for each in Part:
        if each.value.lower() == text.strip().lower():
            return each
    raise ValueError(f"{text[:40]!r} is no type of policy: Custom or Default")


def read_entries(info: PolicyInfo) -> tuple[Part, list[Entry]]:
    """Read one part of a policy.

    Raises:
        ValueError: If something in it is none.
    """
    entries = []
    for each in info.entries or ():
        if not each.actions:
            raise ValueError("an entry has at least one action")
        decision = (each.decision or "").strip().lower()
        if decision not in ("allow", "deny"):
            raise ValueError(f"{decision[:40]!r} is no decision: Allow or Deny")
        entries.append(
            Entry(
                resource=Resource.parse(each.resource or ""),
                actions=frozenset(map(parse_action, each.actions)),
                sources=tuple(check_source(text) for text in each.source_ips or () if text),
                decision=Decision.ALLOW if decision == "allow" else Decision.DENY,
            )
        )
    if not entries:
        raise ValueError("a policy has at least one entry")
    return read_part(info.policy_type), entries


def read_policy(info: AclInfo) -> Policy:
    """Read all that a subject is allowed, as a server tells of it.

    Raises:
        ValueError: If something in it is none.
        InvalidName: If the subject is no user.
    """
    policy = Policy(subject=SUBJECT_PREFIX + user_of_subject(info.subject or ""))
    for each in info.policies or ():
        if each.entries:
            policy = policy.with_entries(*read_entries(each))
    return policy
