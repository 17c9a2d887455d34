"""The command, run as users run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rocketpipe import __version__

COMMAND = str(Path(sys.executable).parent / "rocketpipe")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60)


def test_it_says_its_version() -> None:
    assert run("--version").stdout == f"rocketpipe {__version__}\n"


def test_without_a_command_it_says_which_there_are() -> None:
    result = run()
    assert result.returncode == 2
    assert "serve" in run("--help").stdout
    assert "COMMAND" in result.stderr


def test_an_error_is_one_line_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    servers = ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0"]
    result = run("serve", "--data", str(tmp_path / "file"), *servers)
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("rocketpipe serve: ")
    assert "Traceback" not in result.stderr
