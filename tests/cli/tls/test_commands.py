"""``rocketpipe tls``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.remoting.tls_rooms import answering, server_tls

from rocketpipe.cli.main import main
from rocketpipe.remoting.authority import Authority


def test_init_makes_a_ca_and_pairs_and_keeps_the_ca(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "certs"
    assert main(["tls", "init", str(directory), "--host", "b.example", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["names"] == ["b.example", "localhost", "127.0.0.1", "::1"]
    kept = {name: (directory / name).read_bytes() for name in ("ca.pem", "client.pem")}
    assert main(["tls", "init", str(directory), "--name", "c", "--host", "c.example"]) == 0
    assert "rocketpipe serve --tls-cert" in capsys.readouterr().out
    assert {name: (directory / name).read_bytes() for name in kept} == kept
    assert main(["tls", "init", str(directory), "--client", "client"]) == 0
    assert (directory / "client.pem").read_bytes() != kept["client.pem"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "a b"], "--host: 'a b' is neither a host name nor an address"),
        (["--name", "../x"], "--name: '../x' cannot be the name of a file there"),
        (["--client", "ca"], "--client: 'ca' cannot be"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["tls", "init", str(tmp_path), *words]) == 2
    assert said in capsys.readouterr().err


async def test_check_says_what_a_client_would_meet(
    authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    async with answering(server_tls(authority)) as (address, _):
        words = ["tls", "check", address]
        ca = ["--ca-file", str(authority.ca_file)]
        assert await asyncio.to_thread(main, [*words, *ca, "-o", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["mode"], told["trusted"], told["problem"]) == ("enforcing", True, "")
        assert told["client_certificate"] == "not required"
        assert await asyncio.to_thread(main, words) == 1
        assert "name the file of its CA" in capsys.readouterr().out
    async with answering(None) as (address, _):
        assert await asyncio.to_thread(main, ["tls", "check", address]) == 1
        assert "TLS is off there" in capsys.readouterr().out


def test_an_address_that_is_none_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tls", "check", "nowhere"]) == 2
    assert "'nowhere' is not host:port" in capsys.readouterr().err
