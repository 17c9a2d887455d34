"""Answers to those who ask about users and rights, and change them.

A secret is taken and never told: where one would stand are six stars, and a user that is sent back
so keeps the one it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from rocketpipe.auth.changing import Changing
from rocketpipe.auth.gate import Gate, Principal
from rocketpipe.auth.infos import (
    acl_info,
    read_entries,
    read_part,
    read_status,
    read_type,
    user_info,
)
from rocketpipe.auth.plain_perms import perm_entries, perm_entry
from rocketpipe.auth.policy import Kind, Part, Policy, Resource, check_source
from rocketpipe.auth.secret import HIDDEN, LEAST_ON_THE_WIRE, check_secret
from rocketpipe.auth.subject import (
    SUBJECT_PREFIX,
    User,
    UserStatus,
    UserType,
    check_user,
    user_of_subject,
)
from rocketpipe.auth.users import AuthLent, AuthTableFull
from rocketpipe.errors import InvalidName, RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.users import (
    AclReply,
    AclsReply,
    CreateAcl,
    CreateUser,
    DeleteAcl,
    DeletePlainAccount,
    DeleteUser,
    GetAcl,
    GetPlainAclVersion,
    GetUser,
    ListAcls,
    ListUsers,
    PlainAclVersion,
    UpdateAcl,
    UpdateGlobalWhiteAddresses,
    UpdatePlainAccount,
    UpdateUser,
    UserReply,
    UsersReply,
)
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.files.disk import DiskError

#: What 4.9 answers where accounts, and addresses, could not be changed.
_ACCOUNT_NOT_UPDATED: Final = 209
_ACCOUNT_NOT_DELETED: Final = 210
_ADDRESSES_NOT_UPDATED: Final = 211


async def _nobody_waits() -> None:
    """No replica has to have it too."""


class UserHandlers:
    """Makes, changes and tells of users and of what they may do."""

    def __init__(self, gate: Gate, settled: Callable[[], Awaitable[None]] = _nobody_waits) -> None:
        """``settled`` waits until whoever takes over has what was changed."""
        self.gate = gate
        self._users = gate.users
        self._policies = gate.policies
        self._changing = Changing(gate.users, gate.policies)
        self._settled = settled

    @handles(CreateUser)
    async def create_user(self, request: CreateUser, call: Call) -> None:
        """Make a user; one that is there already is refused, unless it is the very same.

        The servers of one directory are each told, and who was not answered asks again.
        """
        with _refusing():
            name, info = check_user(request.username), request.user
            secret = check_secret(info.password or "", least=LEAST_ON_THE_WIRE)
            kind = read_type(info.user_type) or UserType.NORMAL
            status = read_status(info.user_status) or UserStatus.ENABLE
        self._refuse_promotion(call.by, kind)
        async with self._changing:
            user, known = (
                User(name=name, secret=secret, type=kind, status=status),
                self._users.get(name),
            )
            if known is not None:
                self._refuse_above(call.by, known)
            if known != user:
                if known is not None:
                    raise _no(f"{SUBJECT_PREFIX}{name} is there already.")
                await _kept(self._users.put, user)
        await self._settled()

    @handles(UpdateUser)
    async def update_user(self, request: UpdateUser, call: Call) -> None:
        """Change a user; what is empty, and a secret of stars, stays."""
        with _refusing():
            name, info = check_user(request.username), request.user
            secret = None
            if info.password and info.password != HIDDEN:
                secret = check_secret(info.password, least=LEAST_ON_THE_WIRE)
            kind, status = read_type(info.user_type), read_status(info.user_status)
        async with self._changing:
            user = self._found(name)
            self._refuse_above(call.by, user)
            if kind is not None:
                self._refuse_promotion(call.by, kind)
            changed = replace(user, type=kind or user.type, status=status or user.status)
            if secret is not None:
                # Without a time, whoever gives another secret wants the last one gone.
                changed = changed.with_secret(secret, info.old_password_until)
            if not (changed.is_super and changed.is_enabled):
                self._refuse_last(user)
            await _kept(self._users.put, changed)
        await self._settled()

    @handles(DeleteUser)
    async def delete_user(self, request: DeleteUser, call: Call) -> None:
        """Remove a user with all rights; one that is not there is no error."""
        with _refusing():
            name = check_user(request.username)
        async with self._changing:
            await self._remove(name, call.by)
        await self._settled()

    async def put_account(self, request: UpdatePlainAccount, by: Principal | None) -> None:
        """Make or change a user as an account of RocketMQ 4.9 says, rights and all."""
        with _refusing():
            name = check_user(request.access_key)
            policy = plain_policy(request, SUBJECT_PREFIX + name)
            secret = None
            if request.secret_key and request.secret_key != HIDDEN:
                secret = check_secret(request.secret_key, least=LEAST_ON_THE_WIRE)
        kind = UserType.SUPER if request.admin else UserType.NORMAL
        self._refuse_promotion(by, kind)
        async with self._changing:
            user = self._users.get(name)
            if user is None:
                if secret is None:
                    raise _no("a new account needs a secretKey.")
                user = User(name=name, secret=secret, type=kind)
            else:
                self._refuse_above(by, user)
                if kind is not UserType.SUPER:
                    self._refuse_last(user)
                user = replace(user, secret=secret or user.secret, type=kind)
            if policy.entries:
                await _kept(self._policies.put, policy)
            await _kept(self._users.put, user)
        await self._settled()

    async def _remove(self, name: str, by: Principal | None) -> None:
        user = self._users.get(name)
        if user is None:
            return
        self._refuse_above(by, user)
        self._refuse_last(user)
        # The rights first: a user of that name who is made later is not to have them.
        await _kept(self._policies.remove, user.subject)
        await _kept(self._users.remove, name)

    @handles(GetUser)
    async def get_user(self, request: GetUser, call: Call) -> UserReply:
        """Tell of a user, if there is such a one."""
        with _refusing():
            user = self._users.get(check_user(request.username))
        return UserReply(user=None if user is None else user_info(user))

    @handles(ListUsers)
    async def list_users(self, request: ListUsers, call: Call) -> UsersReply:
        """Tell of all users whose names contain something."""
        users = [user for user in self._users.all() if (request.filter or "") in user.name]
        return UsersReply(users=tuple(map(user_info, users)) or None)

    @handles(CreateAcl)
    async def create_acl(self, request: CreateAcl, call: Call) -> None:
        """Grant and deny; entries about the same resources are replaced."""
        await self._grant(request)

    @handles(UpdateAcl)
    async def update_acl(self, request: UpdateAcl, call: Call) -> None:
        """Do the same."""
        await self._grant(request)

    async def _grant(self, request: CreateAcl | UpdateAcl) -> None:
        with _refusing():
            name = user_of_subject(request.acl.subject or request.subject or "")
            parts = [read_entries(info) for info in request.acl.policies or ()]
            if not parts:
                raise ValueError("no policy is given")
        async with self._changing:
            user = self._found(name)
            policy = self._policies.get(user.subject) or Policy(subject=user.subject)
            for part, entries in parts:
                policy = policy.with_entries(part, entries)
            await _kept(self._policies.put, policy)
        await self._settled()

    @handles(DeleteAcl)
    async def delete_acl(self, request: DeleteAcl, call: Call) -> None:
        """Take back what is said of a resource; all that is said, where none is named."""
        with _refusing():
            subject = SUBJECT_PREFIX + user_of_subject(request.subject)
            part = read_part(request.policy_type) if request.policy_type else None
            resource = Resource.parse(request.resource) if request.resource else None
        async with self._changing:
            policy = self._policies.get(subject)
            if policy is None:
                return
            if resource is not None:
                policy = policy.without(resource, part)
            if resource is None or not policy.entries:
                await _kept(self._policies.remove, subject)
            else:
                await _kept(self._policies.put, policy)
        await self._settled()

    @handles(GetAcl)
    async def get_acl(self, request: GetAcl, call: Call) -> AclReply:
        """Tell what a subject may do."""
        with _refusing():
            policy = self._policies.get(SUBJECT_PREFIX + user_of_subject(request.subject))
        return AclReply(acl=None if policy is None else acl_info(policy))

    @handles(ListAcls)
    async def list_acls(self, request: ListAcls, call: Call) -> AclsReply:
        """Tell what subjects may do, whose names and resources contain something."""
        found = [
            acl_info(policy, request.resource_filter or "")
            for policy in self._policies.all()
            if (request.subject_filter or "") in policy.subject
        ]
        return AclsReply(acls=tuple(info for info in found if info.policies) or None)

    def _found(self, name: str) -> User:
        user = self._users.get(name)
        if user is None:
            raise _no(f"{SUBJECT_PREFIX}{name} is not found.")
        return user

    @staticmethod
    def _refuse_promotion(by: Principal | None, kind: UserType) -> None:
        if kind is UserType.SUPER and (by is None or not by.is_super):
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, "only who may do everything makes others so."
            )

    @staticmethod
    def _refuse_above(by: Principal | None, user: User) -> None:
        if user.is_super and (by is None or not by.is_super):
            raise _no("only who may do everything changes others who may.")

    def _refuse_last(self, user: User) -> None:
        able = [each for each in self._users.all() if each.is_super and each.is_enabled]
        if user.name == self.gate.inner_user:
            raise _no(
                f"servers ask each other as {user.subject}: name another one in their "
                "innerClientAuthenticationCredentials first, and start them again."
            )
        people = [each for each in able if each.name != self.gate.inner_user]
        if [user] in (able, people):
            raise _no(f"{user.subject} is the last who may do everything: make another one first.")


class PlainAclHandlers:
    """Answers to RocketMQ 4.9's tools, which know accounts."""

    def __init__(self, users: UserHandlers, broker: str, address: str, cluster: str) -> None:
        self._handlers = users
        self._gate = users.gate
        self._broker = broker
        self._address = address
        self._cluster = cluster

    @handles(UpdatePlainAccount)
    async def update_account(self, request: UpdatePlainAccount, call: Call) -> None:
        """Make or change an account: a user, and what it may do."""
        try:
            await self._handlers.put_account(request, call.by)
        except RequestRejected as error:
            raise RequestRejected(_ACCOUNT_NOT_UPDATED, error.remark) from error

    @handles(DeletePlainAccount)
    async def delete_account(self, request: DeletePlainAccount, call: Call) -> None:
        """Remove an account; one that is not there is refused, as 4.9 does."""
        try:
            if self._gate.users.get(request.access_key) is None:
                raise _no(f"{SUBJECT_PREFIX}{request.access_key[:64]} is not found.")
            await self._handlers.delete_user(DeleteUser(username=request.access_key), call)
        except RequestRejected as error:
            raise RequestRejected(_ACCOUNT_NOT_DELETED, error.remark) from error

    @handles(GetPlainAclVersion)
    async def version(self, request: GetPlainAclVersion, call: Call) -> PlainAclVersion:
        """Tell how often accounts changed since the start."""
        text = f'{{"counter":{self._gate.users.changes},"timestamp":0}}'
        return PlainAclVersion(
            version=text,
            all_acl_file_version=f'{{"users.json":{text}}}',
            broker_name=self._broker,
            broker_addr=self._address,
            cluster_name=self._cluster,
        )

    @handles(UpdateGlobalWhiteAddresses)
    async def white_addresses(self, request: UpdateGlobalWhiteAddresses, call: Call) -> None:
        """Refuse it: an address never stands for a login."""
        raise RequestRejected(
            _ADDRESSES_NOT_UPDATED, "nobody is let in by an address alone: make a user instead"
        )


def plain_policy(request: UpdatePlainAccount, subject: str) -> Policy:
    """What an account of 4.9 may do.

    Raises:
        ValueError: If a permission or an address is none.
    """
    given = [text.strip() for text in (request.white_remote_address or "").split(",")]
    sources = tuple(check_source(text) for text in given if text)
    own = [
        *perm_entries(Kind.TOPIC, _split(request.topic_perms), sources),
        *perm_entries(Kind.GROUP, _split(request.group_perms), sources),
    ]
    usual = [
        perm_entry(kind, "*", perm, sources)
        for kind, perm in (
            (Kind.TOPIC, request.default_topic_perm),
            (Kind.GROUP, request.default_group_perm),
        )
        if perm
    ]
    policy = Policy(subject=subject)
    for part, entries in ((Part.CUSTOM, own), (Part.DEFAULT, usual)):
        if entries:
            policy = policy.with_entries(part, entries)
    return policy


def _split(text: str | None) -> list[str]:
    return [each for each in (text or "").split(",") if each.strip()]


def _no(text: str) -> RequestRejected:
    return RequestRejected(ResponseCode.NO_PERMISSION, text)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (ValueError, InvalidName) as error:
        raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error


async def _kept(change: Callable[..., Any], value: Any) -> None:
    """Make a change on a thread that may wait for the disk, to its end whatever happens here."""
    try:
        await asyncio.shield(asyncio.to_thread(change, value))
    except (AuthTableFull, AuthLent) as error:
        raise _no(str(error)) from error
    except DiskError as error:
        raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"not kept: {error}") from error
