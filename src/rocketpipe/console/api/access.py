"""The console itself: who is at it and may do what, logging in and out, and what was changed."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from rocketpipe._version import __version__
from rocketpipe.console.answers import json_response
from rocketpipe.console.asking import Ask, Endpoint, get

#: Everybody may try: so nobody is to fill the memory with it.
MAX_LOGIN_BYTES: Final = 4096


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user with a password, or the token."""

    user: str = ""
    password: str = ""
    token: str = ""


async def console(ask: Ask) -> dict[str, Any]:
    """What this console is, and who asks."""
    guarded = await ask.console.is_guarded()
    config, person = ask.console.config, ask.person
    return {
        "version": __version__,
        "name_servers": config.name_servers if person.name or not guarded else None,
        "guarded": guarded,
        "who": person.name,
        "may_change": person.may_change,
        "may_see_bodies": person.may_see_bodies,
        "masked": config.masks.names if person.name or not guarded else [],
        "login": "users" if guarded else "token" if config.token is not None else None,
        "streams": ask.console.streams,
        "streams_most": config.max_streams,
        "as_of_ms": ask.as_of_ms(),
    }


async def login(ask: Ask) -> Response:
    """Prove who one is; the cookie is new each time, and the one before is worth nothing."""
    given = await ask.body(Login, MAX_LOGIN_BYTES)
    cookie, person = await ask.console.login(
        address_of(ask), user=given.user, password=given.password, token=given.token
    )
    await ask.console.logout(ask.request.cookies.get(ask.console.config.cookie))
    response = json_response({"who": person.name, "may_change": person.may_change})
    response.set_cookie(
        ask.console.config.cookie,
        cookie,
        httponly=True,
        samesite="strict",
        secure=ask.console.config.is_https,
    )
    return response


async def logout(ask: Ask) -> Response:
    """Go."""
    await ask.console.logout(ask.request.cookies.get(ask.console.config.cookie))
    response = json_response({"who": None})
    response.delete_cookie(ask.console.config.cookie, httponly=True, samesite="strict")
    return response


async def changes(ask: Ask) -> dict[str, Any]:
    """What people changed by this console, the latest first; addresses are for who is somebody."""
    rows = ask.console.changes.latest(ask.limit())
    if ask.person.name is None:
        rows = [msgspec.structs.replace(row, address="") for row in rows]
    return {"rows": rows, "complete": True, "as_of_ms": ask.as_of_ms()}


def address_of(ask: Ask) -> str:
    """Where a request came from."""
    client = ask.request.client
    return client.host if client is not None else ""


ENDPOINTS = (
    get("/console", console, public=True),
    Endpoint("POST", "/login", login, is_public=True),
    Endpoint("POST", "/logout", logout, is_public=True),
    get("/changes", changes),
)
