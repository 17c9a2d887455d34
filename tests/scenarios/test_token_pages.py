"""Pages of the health port that want a token want it by the console's connections too."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import httpx
from tests.console.support.asking import ADDRESS

from rocketpipe.cli.serving import console_option
from rocketpipe.console.console import ConsoleConfig
from rocketpipe.health.bearer import BearerToken
from rocketpipe.health.http_port import Watched, health_port

TOKEN = "the-token-of-prometheus"


async def test_a_connection_that_was_handed_on_gives_no_measurements_away(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(f"{TOKEN}\n")
    later = console_option.Later()
    async with AsyncExitStack() as stack:
        watched, token = Watched(), BearerToken(file)
        address = await stack.enter_async_context(
            health_port("127.0.0.1", 0, watched, token=token, more=later)
        )
        config = ConsoleConfig(name_servers="127.0.0.1:1", address=ADDRESS)
        later.token = token
        await later.open(stack, config, watched)
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://{address}"))
        for path in ("/metrics", "/version"):
            # The first page is the console's, so that it has the connection from then on.
            assert (await client.get("/")).status_code == 200
            refused = await client.get(path)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert (await client.get("/")).status_code == 200
            shown = await client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
            assert shown.status_code == 200
            assert (await client.get("/healthz")).text == "ok\n"
