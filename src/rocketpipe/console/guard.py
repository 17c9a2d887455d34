"""What stands before pages and API: where a request may come from, and what goes with answers.

A page of another site that a person looks at can make this person's browser ask here. So the name
that was asked for must be this console's (else a stranger's name was pointed at it), a question by
the API must not come from another site, and a change must come from a page of this console:
browsers say so in ``Sec-Fetch-Site``, and no form and no other site sends our header with JSON.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rocketpipe.console.answers import Problem
from rocketpipe.console.asking import MAX_BODY_BYTES
from rocketpipe.health.http_port import PAGES

#: What a change carries, beside a JSON body.
HEADER: Final = "x-rocketpipe-console"
API: Final = "/api/"
_WILD: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not listened at

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Lets requests through to an app that may have come, and gives all answers our headers."""

    def __init__(self, app: ASGIApp, *, bound: str, public: frozenset[str]) -> None:
        """Take the host that is listened at, and the names that are given for it beside that."""
        self._app = app
        self._bound = bound
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets, and nothing that begins or ends with the app
        if _path(scope) in PAGES:
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        problem = self._problem(scope)
        await (self._app if problem is None else problem.response())(scope, receive, guarded)

    def _problem(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        if not self._is_ours(headers.get("host", "")):
            return Problem(
                421,
                "this console is not known by that name",
                "open it by its address, or start it with --public-url and the name",
            )
        site = headers.get("sec-fetch-site")
        if _path(scope).startswith(API) and site in ("cross-site", "same-site"):
            return Problem(403, "another site asks", "open the console itself")
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST":
            return Problem(
                405, "only GET, HEAD and POST are answered", "see the API", {"Allow": "GET, POST"}
            )
        return _problem_of_change(headers, site, self._public)

    def _is_ours(self, host: str) -> bool:
        name = _name(host)
        if name is None:
            return False
        if name in self._public or name == "localhost" or name == self._bound:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        # A number cannot be pointed elsewhere, as a name can.
        return self._bound in _WILD


def _path(scope: Scope) -> str:
    """The path below where the app is mounted."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _problem_of_change(
    headers: Headers, site: str | None, public: frozenset[str]
) -> Problem | None:
    if site != "same-origin":
        return Problem(
            403, "a change comes from the console's own pages", "send Sec-Fetch-Site: same-origin"
        )
    if not _is_own(headers.get("origin"), headers.get("host"), public):
        return Problem(403, "another site asks for a change", "open the console itself")
    if headers.get(HEADER) != "1":
        return Problem(403, f"{HEADER} is missing", f"send {HEADER}: 1")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return Problem(415, "a change is JSON", "send Content-Type: application/json")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY_BYTES:
        return Problem(413, "the body is too long", f"send {MAX_BODY_BYTES} bytes at most")
    return None


def _is_own(origin: str | None, host: str | None, public: frozenset[str]) -> bool:
    """Whether a page is one of ours; a proxy may ask in another name than people do."""
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.netloc == host or parts.hostname in public


def _name(host: str) -> str | None:
    """``name:port`` or ``[v6]:port`` → the name alone; None if it is neither."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
