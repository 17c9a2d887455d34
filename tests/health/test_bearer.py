"""The token of those who watch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.health.test_http_port import ask, get

from rocketpipe.errors import ConfigError
from rocketpipe.health.bearer import BearerToken
from rocketpipe.health.http_port import Watched, health_port
from rocketpipe.remoting.caller import split_address

TOKEN = "a-token-of-many-characters"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "http.token"
    path.touch(0o600)
    path.write_text(f"{TOKEN}\nwhat it is for\n")
    return path


def head(*lines: str) -> str:
    return "\r\n".join(["GET /metrics HTTP/1.1", *lines, "", ""])


def test_it_is_shown_or_it_is_not(file: Path) -> None:
    token = BearerToken(file)
    assert token.is_shown_in(head("Host: a", f"authorization:  bearer {TOKEN} "))
    for line in (f"Authorization: {TOKEN}", f"Authorization: Basic {TOKEN}", f"X: Bearer {TOKEN}"):
        assert not token.is_shown_in(head(line))
    assert not token.is_shown_in(head(f"Authorization: Bearer {TOKEN}é"))
    assert not token.is_shown_in(head())


def test_another_one_counts_once_it_is_there(file: Path) -> None:
    token = BearerToken(file)
    new = file.with_name("new")
    new.touch(0o600)
    new.write_text("another-token-of-many\n")
    new.replace(file)
    assert not token.is_shown_in(head(f"Authorization: Bearer {TOKEN}"))
    assert token.is_shown_in(head("Authorization: Bearer another-token-of-many"))
    file.unlink()
    assert token.is_shown_in(head("Authorization: Bearer another-token-of-many"))


def test_a_file_that_guards_nothing_is_refused(file: Path) -> None:
    file.write_text("short\n")
    with pytest.raises(ConfigError, match="no token of 16"):
        BearerToken(file)
    file.write_text(TOKEN)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        BearerToken(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        BearerToken(file.with_name("nowhere"))


async def test_pages_with_names_are_for_those_who_show_it(file: Path) -> None:
    async with health_port("127.0.0.1", 0, Watched(), token=BearerToken(file)) as address:
        at = split_address(address)
        assert (await get(at, "/healthz"))[0] == 200
        assert (await get(at, "/readyz"))[0] == 503  # open: it is still starting
        for page in ("/metrics", "/version"):
            code, headers, body = await ask(at, f"GET {page}?x HTTP/1.1\r\n\r\n".encode())
            assert (code, "WWW-Authenticate: Bearer" in headers) == (401, True)
            assert "rocketpipe" not in body
            shown = f"GET {page} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            assert (await ask(at, shown.encode()))[0] == 200
