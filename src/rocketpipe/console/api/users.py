"""Users and what they may do: listed, made, rotated, disabled, granted, revoked and explained.

Whoever is logged in asks in their own name, so the servers judge who may look at users and change
them. A secret is told once, to whom it was made for, and is in no list, note or log.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, Final

import msgspec

from rocketpipe.auth.policy import Part
from rocketpipe.auth.secret import Secret
from rocketpipe.client.admin.access.servers import Change
from rocketpipe.client.admin.access.users import UserState
from rocketpipe.client.admin.fleet import PartlyDone
from rocketpipe.console.answers import Problem
from rocketpipe.console.asking import Ask, change, get, paged
from rocketpipe.console.noting import check_typed, noted

_HOUR_MS: Final = 3_600_000
#: A secret that stays valid for longer beside another one was not rotated.
_MAX_HOURS: Final = 366 * 24
_MAX_NAMED: Final = 50

_Names = Annotated[list[str], msgspec.Meta(min_length=1, max_length=_MAX_NAMED)]


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user that is to be made; one who may do everything has the name typed to confirm.

    With a secret it is made where it is missing; without one a secret is made and told.
    """

    name: str
    is_super: bool = False
    secret: str | None = None
    confirm: str = ""


class NewSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another secret for a user, beside which the last one is good for some hours."""

    confirm: str
    old_hours: Annotated[int, msgspec.Meta(ge=0, le=_MAX_HOURS)] = 24
    secret: str | None = None


class Confirmed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change that is confirmed by typing the user's name."""

    confirm: str


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user is allowed or denied: ``Topic:orders*``, ``Group:billing``, ``Cluster:*``."""

    resources: _Names
    actions: _Names
    sources: Annotated[list[str], msgspec.Meta(max_length=_MAX_NAMED)] = []
    deny: bool = False
    replace: bool = False


class Revoke(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is taken back of a user; without actions all that is said of the resources."""

    resources: _Names
    actions: Annotated[list[str], msgspec.Meta(max_length=_MAX_NAMED)] = []
    part: str | None = None


async def users(ask: Ask) -> dict[str, Any]:
    """A page of the users whose names contain ``q``, and the servers that have none."""
    found, without = await ask.admin.users.all_with_servers(ask.text("q") or "")
    by_name = {one.name: one for one in found}
    names, after = paged(ask, sorted(by_name), ask.limit())
    return {
        "rows": [_state(ask, by_name[name]) for name in names],
        "after": after,
        "total": len(by_name),
        "complete": after is None,
        "without": without,
        "as_of_ms": ask.as_of_ms(),
    }


async def user(ask: Ask) -> dict[str, Any]:
    """One user, and what it may do."""
    name = ask.part("user")
    state = await ask.admin.users.show(name)
    rights = [one.record() for one in await ask.admin.policies.all(name)]
    return _state(ask, state) | {"rights": rights, "as_of_ms": ask.as_of_ms()}


async def explain(ask: Ask) -> dict[str, Any]:
    """Whether a user may do something, which entry decides, and why."""
    resources = _listed(ask.needed("resource"))
    actions = _listed(ask.needed("action"))
    asked = [(action, resource) for resource in resources for action in actions]
    found = await ask.admin.policies.explain(
        ask.part("user"), asked, source=ask.text("source") or ""
    )
    return found.record()


async def create(ask: Ask) -> dict[str, Any]:
    """Make a user."""
    wanted = await ask.body(NewUser)
    if wanted.is_super:
        check_typed(wanted.confirm, wanted.name)
    secret = _secret(wanted.secret)
    work = ask.admin.users.create(
        wanted.name,
        secret,
        is_super=wanted.is_super,
        where_missing=wanted.secret is not None,
    )
    what = f"create user {wanted.name}" + (" who may do everything" if wanted.is_super else "")
    return await _with_secret(ask, what, work, wanted.name, secret, given=wanted.secret)


async def rotate(ask: Ask) -> dict[str, Any]:
    """Give a user another secret."""
    name, wanted = ask.part("user"), await ask.body(NewSecret)
    check_typed(wanted.confirm, name)
    secret = _secret(wanted.secret)
    until = ask.as_of_ms() + wanted.old_hours * _HOUR_MS if wanted.old_hours else 0
    work = ask.admin.users.rotate(name, secret, old_until_ms=until)
    what = f"rotate the secret of user {name}"
    told = await _with_secret(ask, what, work, name, secret, given=wanted.secret)
    if not wanted.old_hours:
        await ask.console.send_away(name)
    return told | {"old_until_ms": until or None}


async def disable(ask: Ask) -> dict[str, Any]:
    """Let a user in no longer; at this console from now on."""
    name = await _confirmed(ask)
    done = await noted(ask, f"disable user {name}", ask.admin.users.disable(name))
    await ask.console.send_away(name)
    return _done(done)


async def enable(ask: Ask) -> dict[str, Any]:
    """Let a user in again."""
    name = await _confirmed(ask)
    return _done(await noted(ask, f"enable user {name}", ask.admin.users.enable(name)))


async def delete(ask: Ask) -> dict[str, Any]:
    """Remove a user with all its rights."""
    name = await _confirmed(ask)
    done = await noted(ask, f"delete user {name}", ask.admin.users.delete(name))
    await ask.console.send_away(name)
    return _done(done)


async def grant(ask: Ask) -> dict[str, Any]:
    """Allow a user something, or deny it."""
    name, wanted = ask.part("user"), await ask.body(Grant)
    verb = "deny" if wanted.deny else "grant"
    what = f"{verb} {', '.join(wanted.actions)} on {', '.join(wanted.resources)} to user {name}"
    if wanted.sources:
        what += f" from {', '.join(wanted.sources)}"
    work = ask.admin.policies.grant(
        name,
        wanted.resources,
        wanted.actions,
        sources=wanted.sources,
        deny=wanted.deny,
        replace_others=wanted.replace,
    )
    return _done(await noted(ask, what, work))


async def revoke(ask: Ask) -> dict[str, Any]:
    """Take back what was granted, or denied."""
    name, wanted = ask.part("user"), await ask.body(Revoke)
    if wanted.part is not None and wanted.part not in {part.value for part in Part}:
        named = " or ".join(part.value for part in Part)
        raise Problem(400, f"part={wanted.part[:40]!r} is unknown", f"give {named}, or none")
    some = f"{', '.join(wanted.actions)} on " if wanted.actions else ""
    what = f"revoke {some}{', '.join(wanted.resources)} of user {name}"
    part = Part(wanted.part) if wanted.part is not None else None
    work = ask.admin.policies.revoke(name, wanted.resources, wanted.actions, part=part)
    return _done(await noted(ask, what, work))


def _state(ask: Ask, one: UserState) -> dict[str, Any]:
    old = one.old_until_ms
    return {
        "name": one.name,
        "super": one.is_super,
        "enabled": one.is_enabled,
        "old_until_ms": old if old is not None and old > ask.as_of_ms() else None,
        "servers": one.servers,
        "missing": one.missing,
        "different": one.different,
        "silent": one.silent,
    }


def _done(done: Change) -> dict[str, Any]:
    return {"done": done.done, "unchanged": done.unchanged, "without": done.without}


def _secret(given: str | None) -> Secret:
    return Secret(given) if given is not None else Secret.generate()


async def _with_secret(
    ask: Ask, what: str, work: Awaitable[Change], name: str, secret: Secret, *, given: str | None
) -> dict[str, Any]:
    """Have it done; where only some servers have the secret, whoever asked needs it all the more.

    Raises:
        PartlyDone: If the secret was given, and some servers do not have it.
    """
    try:
        told, failed = _done(await noted(ask, what, work)), {}
    except PartlyDone as error:
        if given is not None or not error.done:
            raise
        told = {"done": error.done, "unchanged": (), "without": ()}
        failed = {server: str(reason) for server, reason in error.failed.items()}
    shown = {} if given is not None else {"secret": secret.reveal()}
    return {"name": name, **shown, **told, "failed": failed}


async def _confirmed(ask: Ask) -> str:
    name = ask.part("user")
    check_typed((await ask.body(Confirmed)).confirm, name)
    return name


def _listed(text: str) -> list[str]:
    found = [each.strip() for each in text.split(",") if each.strip()]
    if len(found) > _MAX_NAMED:
        raise Problem(400, f"{len(found)} are named", f"name {_MAX_NAMED} at most")
    return found


ENDPOINTS = (
    get("/users", users),
    get("/users/{user}", user),
    get("/users/{user}/explain", explain),
    change("/users", create),
    change("/users/{user}/rotate", rotate),
    change("/users/{user}/disable", disable),
    change("/users/{user}/enable", enable),
    change("/users/{user}/delete", delete),
    change("/users/{user}/grant", grant),
    change("/users/{user}/revoke", revoke),
)
