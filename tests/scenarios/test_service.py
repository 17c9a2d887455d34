"""The unit without systemd: what a server asks of the system is what the unit lets through."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.scenarios.support.deployed import run, started
from tests.test_deploy import UNIT, unit

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.skipif(shutil.which("strace") is None, reason="no strace here"),
    pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here"),
]


def calls_of(group: str) -> set[str]:
    """The system calls that systemd has under a name."""
    command = ["systemd-analyze", "syscall-filter", "--no-pager", group]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: set[str] = set()
    for line in shown.splitlines()[1:]:
        name = line.strip()
        if name.startswith("@"):
            found |= calls_of(name)
        elif name and not name.startswith("#"):
            found.add(name)
    return found


def let_through() -> set[str]:
    """What the unit's filters leave, in their order."""
    left = calls_of("@default")
    for line in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.MULTILINE):
        for group in line.removeprefix("~").split():
            left = left - calls_of(group) if line.startswith("~") else left | calls_of(group)
    return left


def test_a_server_gets_along_with_what_the_unit_allows(tmp_path: Path) -> None:
    service = unit()["Service"]
    _, *words = shlex.split(service["ExecStart"])
    words += ["--namesrv", "127.0.0.1:9876", "--broker", "127.0.0.1:10911"]
    settings = dict(each.split("=", 1) for each in shlex.split(service["Environment"]))
    under = ("strace", "-f", "-qq", "-o", str(tmp_path / "calls"))
    with started(words, tmp_path, under=under, **settings) as listening:
        name_server = listening["namesrv"]
        run("topic", "create", "orders", name_server=name_server)
        run("message", "send", "orders", "one espresso", name_server=name_server)
        place = ("--from", "earliest", "--count", "1")
        assert "espresso" in run("message", "tail", "orders", *place, name_server=name_server)
    calls = (tmp_path / "calls").read_text()
    used = set(re.findall(r"^\d+ +(\w+)\(", calls, re.MULTILINE))
    assert {"fdatasync", "accept4"} <= used
    assert used <= let_through()
    # RestrictAddressFamilies, MemoryDenyWriteExecute, ProtectSystem
    families = set(re.findall(r"\bsocket\((AF_\w+)", calls))
    assert families <= set(service["RestrictAddressFamilies"].split())
    assert "PROT_WRITE|PROT_EXEC" not in calls
    written = re.findall(r'\bopenat\(\w+, "([^"]+)", O_(?:WRONLY|RDWR)', calls)
    assert written
    outside = {path for path in written if not path.startswith((f"{tmp_path}/data", "/dev/null"))}
    assert not outside
