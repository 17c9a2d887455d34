"""The console on the HTTP port of a process that serves, once its servers can be asked."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.cli.serving.banner import Fact
from rocketpipe.client.session import Session
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.tls_settings import TlsSettings

if TYPE_CHECKING:
    from rocketpipe.console.console import ConsoleConfig
    from rocketpipe.health.bearer import BearerToken
    from rocketpipe.health.http_port import More, Told

#: What the console is made of beside this package.
PACKAGES: Final = ("starlette", "uvicorn", "h11")
HINT: Final = "the extra rocketpipe[console]: pip install starlette uvicorn"
#: The file that has what lets change things, below a server's directory.
TOKEN_FILE: Final = Path("console") / "token"
_MOST_BYTES: Final = 4096


def is_installed() -> bool:
    """Whether all is there that a console takes."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


class Later:
    """Takes connections for a console that may not be there yet."""

    def __init__(self) -> None:
        self._more: More | None = None
        #: What some pages of the port want, if it is set before the console opens.
        self.token: BearerToken | None = None

    def __call__(self) -> asyncio.Protocol | None:
        return None if self._more is None else self._more()

    async def open(
        self,
        stack: AsyncExitStack,
        config: ConsoleConfig,
        told: Told,
        tls: TlsSettings | bool | None = None,
    ) -> None:
        """Have a console from here on; ``tls`` is how its cluster is spoken to."""
        # It takes half a second to load, in which servers go on.
        for name in ("app", "port", "console"):
            await asyncio.to_thread(importlib.import_module, f"rocketpipe.console.{name}")
        from rocketpipe.console.app import console_app
        from rocketpipe.console.console import Console
        from rocketpipe.console.port import speaking

        console = Console(config, session=partial(Session, tls=tls))
        await stack.enter_async_context(console)
        more = await stack.enter_async_context(speaking(console_app(console, told, self.token)))
        stack.callback(console.closing.set)  # before connections are waited for
        self._more = more


async def opened_beside(
    stack: AsyncExitStack,
    later: Later | None,
    *,
    http: str | None,
    name_servers: str,
    data: Path,
    told: Told,
    tls: TlsSettings | bool | None,
    is_https: bool,
    inner: Credentials | None = None,
) -> list[Fact]:
    """Open the console of servers that have an HTTP port; gives what to say of it."""
    if http is None:
        return []
    if later is None:
        return [Fact("Console", f"not installed, {HINT}", "console", None)]
    from rocketpipe.console.console import ConsoleConfig

    place = data / TOKEN_FILE
    config = ConsoleConfig(
        name_servers=name_servers,
        token=await asyncio.to_thread(kept_token, place),
        is_https=is_https,
        address=http,
        inner_secret=None if inner is None else inner.secret,
    )
    await later.open(stack, config, told, tls)
    url = f"http{'s' if is_https else ''}://{http}/"
    return [Fact("Console", f"{url} to look; the token to change things: {place}", "console", url)]


def kept_token(place: Path) -> Secret:
    """The token in a file that only its owner reads; a new one if there is none.

    Raises:
        ConfigError: If it cannot be read or written, or others can read it.
    """
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.exists():
            place.touch(mode=0o600)
            place.write_text(f"{secrets.token_urlsafe(32)}\n")
        if place.stat().st_mode & 0o077:
            raise ConfigError(str(place), "others can read it: chmod 600, or remove it")
        with place.open() as file:
            token = file.read(_MOST_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(str(place), f"no token can be kept there: {reason}") from error
    if len(token) < 16:
        raise ConfigError(str(place), "has no token of 16 characters or more: remove it")
    return Secret(token)


def missing() -> Sequence[str]:
    """Which packages are not installed."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]
