"""``rocketpipe console``: what it is told, what it says, and that it stops."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from rocketpipe.cli.main import main
from rocketpipe.cli.serving import console_option
from rocketpipe.testing.servers import Servers


@pytest.mark.scenario
def test_it_shows_a_cluster_until_it_is_stopped(servers: Servers, tmp_path: Path) -> None:
    kept = tmp_path / "token"
    command = [sys.executable, "-m", "rocketpipe.cli.main", "console", "--http", "127.0.0.1:0"]
    command += ["-n", servers.name_server, "--allow-changes", "--token-file", str(kept)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        try:
            assert child.stdout is not None
            lines = []
            for line in iter(child.stdout.readline, ""):
                lines.append(line.strip())
                if line.startswith("ready "):
                    break
            address = lines[-1].partition("console=")[2]
            assert f"Console: http://{address}/" in lines
            link = f"http://{address}/#/login?token={kept.read_text().strip()}"
            assert f"To change things: {link}" in lines
            with urllib.request.urlopen(f"http://{address}/api/1/brokers", timeout=60) as answer:
                (row,) = json.load(answer)["rows"]
            assert row["address"] == servers.broker
            for page in ("healthz", "readyz", "version"):
                assert urllib.request.urlopen(f"http://{address}/{page}", timeout=60).status == 200
            request = urllib.request.Request(f"http://{address}/", headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError, match="421"):
                urllib.request.urlopen(request, timeout=60)
        finally:
            child.terminate()
            assert child.wait(60) == 0


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--http", "0.0.0.0:0"], "--http: 0.0.0.0 can be reached"),
        (["--token-file", "x"], "--allow-changes"),
        (["--public-url", "mq.example.org"], "is no address"),
        (["--public-url", "javascript:alert(1)"], "is no address"),
        (["-n", "?"], "--namesrv"),
    ],
)
def test_what_it_cannot_do_is_said(
    flags: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", *flags]) == 2
    assert reason in capsys.readouterr().err


def test_without_its_packages_it_says_how_to_get_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_option, "PACKAGES", ("no_such_package",))
    assert main(["console"]) == 2
    assert "rocketpipe[console]: pip install starlette" in capsys.readouterr().err
