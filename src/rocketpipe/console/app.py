"""The console as an ASGI app: pages, API, and the pages of the health port.

It runs behind ``rocketpipe console`` and ``serve --http``, and can be mounted in another app: all
addresses in the pages are relative.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from rocketpipe.console import assets, live
from rocketpipe.console.answers import Problem, json_response
from rocketpipe.console.api import (
    access,
    brokers,
    clients,
    dead_letters,
    groups,
    messages,
    overview,
    pipelines,
    topics,
    traces,
    users,
    waiting,
)
from rocketpipe.console.asking import Ask, Endpoint
from rocketpipe.console.console import Console
from rocketpipe.console.guard import Guard
from rocketpipe.errors import AccessDenied, RocketPipeError
from rocketpipe.health.bearer import BearerToken
from rocketpipe.health.http_port import PAGES, Told, page
from rocketpipe.remoting.caller import split_address

PREFIX: Final = "/api/1"
#: Everything that the API answers.
ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *access.ENDPOINTS,
    *overview.ENDPOINTS,
    *topics.ENDPOINTS,
    *messages.ENDPOINTS,
    *groups.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *waiting.ENDPOINTS,
    *traces.ENDPOINTS,
    *clients.ENDPOINTS,
    *brokers.ENDPOINTS,
    *pipelines.ENDPOINTS,
    *users.ENDPOINTS,
    *live.ENDPOINTS,
)
_FOREVER: Final = "public, max-age=31536000, immutable"

log = logging.getLogger(__name__)


def console_app(
    console: Console, told: Told | None = None, token: BearerToken | None = None
) -> ASGIApp:
    """Give the app of an open console; with what the health port tells, where there is one.

    ``token`` is the one that some of its pages want.
    """
    routes = [Route(f"{PREFIX}{each.path}", _answer(console, each), methods=[each.method])
              for each in ENDPOINTS]  # fmt: skip
    routes += [Route("/", _page), Route("/assets/{digest}/{name:path}", _asset)]
    if told is not None:
        routes += [Route(path, _health(path, told, console, token)) for path in PAGES]
    app = Starlette(
        routes=routes,
        exception_handlers={404: _nothing, 405: _nothing},
    )
    app.router.redirect_slashes = False  # nobody is sent anywhere by what a request names
    config = console.config
    bound = split_address(config.address)[0] if config.address else "127.0.0.1"
    return Guard(app, bound=bound, public=config.public_hosts)


def _answer(console: Console, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        address = request.client.host if request.client is not None else ""
        person = await console.person(request.cookies.get(console.config.cookie), address)
        try:
            if not endpoint.is_public and person.name is None and await console.is_guarded():
                raise Problem(401, "this cluster asks who asks", "log in as one of its users")
            if endpoint.is_change and not person.may_change:
                raise Problem(
                    403, "nobody has proven who changes this", "log in, then do the same again"
                )
            found = await endpoint.work(Ask(request, console, person))
            return found if isinstance(found, Response) else json_response(found)
        except (Problem, RocketPipeError, ValueError) as error:
            if isinstance(error, AccessDenied) and _is_shut_out(error, person.name):
                await console.send_away(error.user)
                cause = f"the servers do not let {error.user} in any more"
                return Problem(401, cause, "log in again").response()
            return Problem.of(error).response()
        except Exception:
            log.exception("console request failed path=%s", request.url.path)
            cause = "the console failed at this; its log says more"
            return Problem(500, cause, "try again, or report it").response()

    return answer


def _is_shut_out(error: AccessDenied, name: str | None) -> bool:
    """Whether who asks is no longer one of the users, and not only lacks a right."""
    return name is not None and error.user == name and not error.resource


async def _page(_: Request) -> Response:
    return Response(assets.load().page, media_type="text/html")


async def _asset(request: Request) -> Response:
    loaded = assets.load()
    asset = loaded.table.get(request.path_params["name"])
    if asset is None or request.path_params["digest"] != loaded.digest:
        return await _nothing(request, None)
    headers = {"Cache-Control": _FOREVER, "Vary": "Accept-Encoding", "Content-Type": asset.kind}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.packed, headers={**headers, "Content-Encoding": "gzip"})
    return Response(asset.plain, headers=headers)


def _health(
    path: str, told: Told, console: Console, token: BearerToken | None
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        shown = token is None or token.is_shown(request.headers.get("authorization", ""))
        found = await page(path, told, console.clock, shown=shown)
        assert found is not None, "it is one of the pages"
        status, kind, body = found
        headers = {"Cache-Control": "no-store", "Content-Type": kind}
        if status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        return Response(body, status.value, headers=headers)

    return answer


async def _nothing(_: Request, error: Exception | None) -> Response:
    if getattr(error, "status_code", 404) == 405:
        return Problem(405, "this is not answered by that method", "see the API").response()
    return Problem(404, "there is nothing here", "begin at the console's first page").response()
