"""Requests about users and what they may do: those of RocketMQ 5.3 (3001 on) and of 4.9 (50 on).

Names and texts are Apache's. Passwords are written, never read: answers have ``******``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketpipe.model.body import Body
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import json_body
from rocketpipe.protocol.request import Request, request


class UserInfo(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A user, as tools see it."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None
    #: Ours: until when the password before this one is good too, in ms since 1970; of a change,
    #: until when the one that it replaces is.
    old_password_until: int | None = None


class PolicyEntryInfo(Body, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a policy."""

    resource: str | None = None
    actions: tuple[str, ...] | None = None
    source_ips: tuple[str, ...] | None = None
    decision: str | None = None


class PolicyInfo(Body, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a policy, ``Custom`` or ``Default``."""

    policy_type: str | None = None
    entries: tuple[PolicyEntryInfo, ...] | None = None


class AclInfo(Body, frozen=True, kw_only=True, omit_defaults=True):
    """All that a subject is allowed, or denied."""

    subject: str | None = None
    policies: tuple[PolicyInfo, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserReply:
    """The user, if there is such a one."""

    user: UserInfo | None = json_body(strict=True, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersReply:
    """The users; nothing if there are none."""

    users: tuple[UserInfo, ...] | None = json_body(strict=True, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclReply:
    """What the subject may do, if there is something to say."""

    acl: AclInfo | None = json_body(strict=True, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsReply:
    """What subjects may do; nothing if there is nothing to say."""

    acls: tuple[AclInfo, ...] | None = json_body(strict=True, default=None)


@request(RequestCode.AUTH_CREATE_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateUser(Request[None]):
    """Make a user."""

    username: str
    user: UserInfo = json_body(strict=True)


@request(RequestCode.AUTH_UPDATE_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateUser(Request[None]):
    """Change a user; what is empty stays."""

    username: str
    user: UserInfo = json_body(strict=True)


@request(RequestCode.AUTH_DELETE_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUser(Request[None]):
    """Remove a user, if there is such a one."""

    username: str


@request(RequestCode.AUTH_GET_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetUser(Request[UserReply]):
    """Ask for a user."""

    username: str


@request(RequestCode.AUTH_LIST_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class ListUsers(Request[UsersReply]):
    """Ask for all users whose names contain something."""

    filter: str | None = None


@request(RequestCode.AUTH_CREATE_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAcl(Request[None]):
    """Say what a subject may do; entries about the same resources are replaced."""

    subject: str | None = None
    acl: AclInfo = json_body(strict=True)


@request(RequestCode.AUTH_UPDATE_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAcl(Request[None]):
    """Do the same as `CreateAcl`."""

    subject: str | None = None
    acl: AclInfo = json_body(strict=True)


@request(RequestCode.AUTH_DELETE_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAcl(Request[None]):
    """Take back what was said of a resource, or all that was said of a subject."""

    subject: str
    policy_type: str | None = None
    resource: str | None = None


@request(RequestCode.AUTH_GET_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAcl(Request[AclReply]):
    """Ask what a subject may do."""

    subject: str


@request(RequestCode.AUTH_LIST_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class ListAcls(Request[AclsReply]):
    """Ask what subjects may do, whose names and resources contain something."""

    subject_filter: str | None = None
    resource_filter: str | None = None


@request(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePlainAccount(Request[None]):
    """Make or change an account as RocketMQ 4.9 has them; lists have commas between."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None
    admin: bool = False


@request(RequestCode.DELETE_ACL_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePlainAccount(Request[None]):
    """Remove an account."""

    access_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAclVersion:
    """Which version of its accounts a broker has."""

    version: str
    all_acl_file_version: str
    broker_name: str
    broker_addr: str
    cluster_name: str


@request(RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetPlainAclVersion(Request[PlainAclVersion]):
    """Ask which version of its accounts a broker has."""


@request(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateGlobalWhiteAddresses(Request[None]):
    """Say whom to let in without a login, which no server of ours does."""

    global_white_addrs: str
    acl_file_full_path: str | None = None
