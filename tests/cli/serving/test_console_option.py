"""The console of servers: its token, and what is said where it is not installed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rocketpipe.cli.serving import console_option
from rocketpipe.errors import ConfigError
from rocketpipe.health.http_port import Watched, health_port


def test_a_token_is_kept_where_only_its_owner_reads_it(tmp_path: Path) -> None:
    place = tmp_path / "console" / "token"
    token = console_option.kept_token(place)
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert len(token.reveal()) >= 43
    assert console_option.kept_token(place).reveal() == token.reveal()
    assert token.reveal() not in repr(token)


def test_a_token_that_others_read_or_anybody_guesses_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "token"
    console_option.kept_token(place)
    place.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read it"):
        console_option.kept_token(place)
    place.chmod(0o600)
    for text in ("", "short\n"):
        place.write_text(text)
        with pytest.raises(ConfigError, match="16 characters"):
            console_option.kept_token(place)
    with pytest.raises(ConfigError, match="no token can be kept"):
        console_option.kept_token(place / "below")


async def test_before_there_is_a_console_the_port_says_what_it_has() -> None:
    later = console_option.Later()
    assert later() is None
    async with health_port("127.0.0.1", 0, Watched(), more=later, hint="for a console: x\n") as at:
        host, _, port = at.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        answer = (await reader.read()).decode()
        writer.close()
    assert answer.startswith("HTTP/1.1 404")
    assert answer.endswith("for a console: x\n")


async def test_servers_without_its_packages_say_how_to_get_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        said = {"name_servers": "a:1", "data": tmp_path, "told": Watched(), "tls": None}
        (fact,) = await console_option.opened_beside(
            stack, None, http="127.0.0.1:1", is_https=False, **said
        )
        assert "rocketpipe[console]" in fact.text
        assert (
            await console_option.opened_beside(stack, None, http=None, is_https=False, **said) == []
        )
