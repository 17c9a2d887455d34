"""Users and rights, asked for by their original verbs.

With ``-c`` the NameServers are told too, which here have users of their own; RocketMQ's have none,
and are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import Any, Final

from rocketpipe.auth.infos import read_part, read_status, read_type
from rocketpipe.auth.policy import Action
from rocketpipe.auth.secret import HIDDEN
from rocketpipe.auth.subject import UserStatus, UserType, user_of_subject
from rocketpipe.cli.mqadmin.flags import BROKER, CLUSTER, Flag, OriginalVerbs, brokers_meant
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.access.policies import NothingToRevoke
from rocketpipe.client.admin.access.servers import NoUser
from rocketpipe.client.admin.admin import Admin
from rocketpipe.errors import ConfigError

_WHERE: Final = (BROKER, CLUSTER)
_USER: Final = Flag("u", "username", "the user", required=True)
_SUBJECT: Final = Flag("s", "subject", "who: User:NAME", required=True)
_PASSWORD: Final = "its secret; rocketpipe user create makes one that nobody guesses"  # noqa: S105
_USERS: Final = {
    "user": "#UserName",
    "password": "#Password",
    "type": "#UserType",
    "status": "#UserStatus",
}
_ACLS: Final = {
    "subject": "#Subject",
    "part": "#PolicyType",
    "resource": "#Resource",
    "actions": "#Actions",
    "sources": "#SourceIp",
    "decision": "#Decision",
}


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    kind = Flag("t", "userType", "Super or Normal", takes=_type)
    verbs.add(
        "createUser",
        "make a user",
        _create_user,
        _USER,
        Flag("p", "password", _PASSWORD, required=True),
        kind,
        one_of=_WHERE,
    )
    verbs.add(
        "updateUser",
        "change the secret, the type or the status of a user",
        _update_user,
        _USER,
        Flag("p", "password", "its new secret"),
        kind,
        Flag("s", "userStatus", "enable or disable", takes=_status),
        one_of=_WHERE,
    )
    verbs.add("deleteUser", "remove a user with its rights", _delete_user, _USER, one_of=_WHERE)
    verbs.add("getUser", "show a user", _get_user, _USER, one_of=_WHERE)
    listed = Flag("f", "filter", "only names that contain this")
    verbs.add("listUser", "list users", _list_user, listed, one_of=_WHERE)
    ends = (
        Flag("f", "fromBroker", "the broker to copy from, by address or name", required=True),
        Flag("t", "toBroker", "the broker to copy to", required=True),
    )
    names = Flag("u", "username", "only these users, with commas between")
    verbs.add("copyUser", "copy users from a broker to another", _copy_user, *ends, names)
    entry = (
        _SUBJECT,
        Flag("r", "resources", "Topic:NAME, Group:NAME, …, with commas between", required=True),
        Flag("a", "actions", "Pub, Sub, …, with commas between", required=True),
        Flag("i", "sourceIp", "only from these addresses and networks"),
        Flag("d", "decision", "Allow or Deny", required=True, takes=_decision),
    )
    for name in ("createAcl", "updateAcl"):
        said = "allow or deny something; what was said of the same resource is replaced"
        verbs.add(name, said, _grant, *entry, one_of=_WHERE)
    verbs.add(
        "deleteAcl",
        "take back what is said of a resource, or all of it",
        _delete_acl,
        _SUBJECT,
        Flag("r", "resources", "the resource; else all of them"),
        Flag("t", "policyType", "Custom or Default; else both", takes=_part),
        one_of=_WHERE,
    )
    verbs.add("getAcl", "show what a subject may do", _get_acl, _SUBJECT, one_of=_WHERE)
    verbs.add(
        "listAcl",
        "list what subjects may do",
        _list_acl,
        Flag("s", "subject", "only subjects that contain this"),
        Flag("r", "resource", "only resources that contain this"),
        one_of=_WHERE,
    )
    subjects = Flag("s", "subjects", "only these subjects, with commas between")
    verbs.add("copyAcl", "copy rights from a broker to another", _copy_acl, *ends, subjects)


def _type(text: str) -> bool:
    return _read(read_type, text) is UserType.SUPER


def _status(text: str) -> UserStatus:
    return _read(read_status, text) or UserStatus.ENABLE


def _part(text: str) -> Any:
    return _read(read_part, text)


def _decision(text: str) -> bool:
    if text.strip().lower() not in ("allow", "deny"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither Allow nor Deny")
    return text.strip().lower() == "deny"


def _read(reader: Callable[[str], Any], text: str) -> Any:
    try:
        return reader(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


async def servers_meant(
    admin: Admin, options: argparse.Namespace, *, leaders: bool = False
) -> dict[str, str]:
    """The servers that ``-b`` or ``-c`` mean, by their addresses; NameServers only with ``-c``."""
    found = await brokers_meant(admin, options)
    at = options.brokerAddr
    addresses = {
        address
        for each in found
        for number, address in each.addresses.items()
        if (address == at if at and at != each.name else number == 0 or not (at or leaders))
    }
    if not (at or leaders):
        addresses |= set(await admin.name_servers.addresses())
    return {address: address for address in sorted(addresses)}


def _each_told(printer: Printer, what: str, servers: tuple[str, ...]) -> int:
    for server in servers:
        printer.line(f"{what} {server} success.")
    return 0


def _split(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


async def _create_user(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    users = admin.users.at(await servers_meant(admin, options))
    change = await _valid(
        users.create(
            options.username,
            options.password,
            is_super=bool(options.userType),
            weak=True,
        )
    )
    return _each_told(printer, "create user to", change.servers)


async def _update_user(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    if options.password is None and options.userType is None and options.userStatus is None:
        raise ConfigError("updateUser", "says nothing to change: give -p, -t or -s")
    users = admin.users.at(await servers_meant(admin, options))
    name = options.username
    change = None
    if options.password is not None and options.password != HIDDEN:
        change = await _valid(users.rotate(name, options.password, weak=True))
    if options.userType is not None:
        change = await users.set_type(name, is_super=options.userType)
    if options.userStatus is not None:
        able = users.enable if options.userStatus is UserStatus.ENABLE else users.disable
        change = await able(name)
    return _each_told(printer, "update user to", change.servers if change else ())


async def _valid(change: Awaitable[Any]) -> Any:
    try:
        return await change
    except ValueError as error:
        raise ConfigError("-p", str(error)) from error


async def _delete_user(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    servers = await servers_meant(admin, options)
    try:
        change = await admin.users.at(servers).delete(options.username)
    except NoUser:
        return _each_told(printer, "delete user to", tuple(servers))  # as the original
    return _each_told(printer, "delete user to", change.servers)


async def _get_user(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    return await _users(admin, printer, options, options.username, exact=True)


async def _list_user(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    return await _users(admin, printer, options, options.filter or "", exact=False)


async def _users(
    admin: Admin, printer: Printer, options: argparse.Namespace, text: str, *, exact: bool
) -> int:
    servers = await servers_meant(admin, options, leaders=True)
    found = await admin.users.at(servers).all(text)
    rows = [
        {
            "user": each.name,
            "password": HIDDEN,
            "type": "Super" if each.is_super else "Normal",
            "status": "enable" if each.is_enabled else "disable",
        }
        for each in found
        if not exact or each.name == text
    ]
    printer.rows(rows, list(_USERS), list(_USERS.values()))
    return 0


async def _copy_user(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    raise ConfigError(
        "copyUser",
        "no broker tells a secret, so users cannot be copied: make them at the other one with "
        "`rocketpipe user create NAME --secret-file FILE`, then use copyAcl for their rights",
    )


async def _grant(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    policies = admin.policies.at(await servers_meant(admin, options))
    try:
        change = await policies.grant(
            user_of_subject(options.subject),
            _split(options.resources),
            _split(options.actions),
            sources=_split(options.sourceIp),
            deny=options.decision,
            replace_others=True,
        )
    except ValueError as error:
        raise ConfigError(options.verb, str(error)) from error
    what = "create acl to" if options.verb == "createAcl" else "update acl to"
    return _each_told(printer, what, change.servers)


async def _delete_acl(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    servers = await servers_meant(admin, options)
    try:
        change = await admin.policies.at(servers).revoke(
            user_of_subject(options.subject), _split(options.resources), part=options.policyType
        )
    except (NothingToRevoke, NoUser):
        return _each_told(printer, "delete acl to", tuple(servers))  # as the original
    except ValueError as error:
        raise ConfigError("-r", str(error)) from error
    return _each_told(printer, "delete acl to", change.servers)


async def _get_acl(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    return await _acls(admin, printer, options, options.subject, "", exact=True)


async def _list_acl(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    return await _acls(
        admin, printer, options, options.subject or "", options.resource or "", exact=False
    )


async def _acls(
    admin: Admin,
    printer: Printer,
    options: argparse.Namespace,
    subject: str,
    resource: str,
    *,
    exact: bool,
) -> int:
    servers = await servers_meant(admin, options, leaders=True)
    found = await admin.policies.at(servers).all(resource=resource)
    rows = [
        {
            "subject": f"User:{each.user}",
            "part": each.part.value,
            "resource": str(each.entry.resource),
            "actions": [action.value for action in Action if action in each.entry.actions],
            "sources": list(each.entry.sources),
            "decision": each.entry.decision.value,
        }
        for each in found
        if (f"User:{each.user}" == subject if exact else subject in f"User:{each.user}")
    ]
    printer.rows(rows, list(_ACLS), list(_ACLS.values()))
    return 0


async def _copy_acl(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    ends = []
    for flag in ("fromBroker", "toBroker"):
        meant = argparse.Namespace(brokerAddr=getattr(options, flag))
        servers = await servers_meant(admin, meant)
        ends.append(admin.policies.at(dict(list(servers.items())[:1])))
    source, target = ends
    wanted = {user_of_subject(each) for each in _split(options.subjects)}
    users = sorted({each.user for each in await source.all()} | wanted)
    for user in users:
        if wanted and user not in wanted:
            continue
        (policy,) = (await source.of(user)).values()
        if policy.entries:
            await target.put(user, policy)
            printer.line(
                f"copy acl of User:{user} from {options.fromBroker} to {options.toBroker} success."
            )
    return 0
