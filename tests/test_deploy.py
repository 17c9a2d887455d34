"""What is in deploy/ can be read by those who read it, and starts servers the way they want it."""

from __future__ import annotations

import argparse
import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rocketpipe.broker.settings import broker_settings
from rocketpipe.cli.main import NOUNS, parser_of

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "rocketpipe.service"
DATA = "/var/lib/rocketpipe"

INSTRUCTIONS = {
    *("FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"),
    *("ENTRYPOINT", "CMD", "ENV", "ARG", "LABEL"),
}


def command(words: list[str]) -> argparse.Namespace:
    """What our own command makes of its arguments; one that it does not know ends the test."""
    return parser_of(noun.name for noun in NOUNS).parse_args(words)


def known_to_the_environment(name: str) -> bool:
    names = {
        f"ROCKETPIPE_{re.sub(r'(?<=[a-z])(?=[A-Z])', '_', spelt).upper()}"
        for one in broker_settings()
        for spelt in (one.key, one.attribute)
    }
    return name in names


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line)]


def test_the_image_copies_what_there_is() -> None:
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for word, rest in instructions():
        assert word in INSTRUCTIONS, word
        if word == "COPY":
            *sources, _ = rest.split()
            for source in sources:
                assert (ROOT / source).exists(), f"COPY {source}: there is none"
                assert f"!{source}" in kept, f"COPY {source}: left out by Dockerfile.dockerignore"


def test_the_image_serves_as_nobody_in_particular() -> None:
    steps = instructions()
    last = max(number for number, (word, _) in enumerate(steps) if word == "FROM")
    final = dict(steps[last:])
    assert final["USER"] not in ("0", "root")
    assert final["VOLUME"] == DATA
    assert json.loads(final["ENTRYPOINT"]) == ["rocketpipe"]
    options = command(json.loads(final["CMD"]))
    assert (options.command, options.data, options.insecure) == ("serve", DATA, True)
    ports = [str(port) for _, port in (options.namesrv, options.broker, options.http)]
    assert final["EXPOSE"].split() == ports
    probe = json.loads(final["HEALTHCHECK"].partition("CMD ")[2])
    assert probe[:2] == ["python", "-c"]
    compile(probe[2], "HEALTHCHECK", "exec")
    assert f":{options.http[1]}/readyz" in probe[2]


@pytest.fixture(scope="module")
def composed() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return read


def test_compose_starts_what_our_command_knows(composed: dict[str, Any]) -> None:
    options = {
        name: command([str(word) for word in service["command"]])
        for name, service in composed["services"].items()
    }
    assert {name: each.command for name, each in options.items()} == {
        "namesrv": "namesrv",
        "broker": "broker",
    }
    assert options["broker"].data == DATA
    assert options["broker"].flush == "sync"
    for name in composed["services"]["broker"]["environment"]:
        assert known_to_the_environment(name), name


def test_compose_is_closed_to_other_machines(composed: dict[str, Any]) -> None:
    for name, service in composed["services"].items():
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), f"{name}: {port}"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")
            assert source in composed["volumes"]
            assert target == DATA
        context = DEPLOY / service["build"]["context"]
        assert (context / service["build"]["dockerfile"]).is_file()


def unit() -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string(UNIT.read_text())
    return read


def test_the_unit_starts_what_our_command_knows() -> None:
    service = unit()["Service"]
    _, *words = shlex.split(service["ExecStart"])
    options = command(words)
    assert (options.command, options.data) == ("serve", f"/var/lib/{service['StateDirectory']}")
    assert not options.insecure
    for setting in shlex.split(service["Environment"]):
        assert known_to_the_environment(setting.partition("=")[0]), setting


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    # It also looks for the program, which is not installed where the unit wants it.
    ours = tmp_path / UNIT.name
    program = unit()["Service"]["ExecStart"].split()[0]
    ours.write_text(UNIT.read_text().replace(program, sys.executable))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", ours],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in verified.stderr.splitlines() if UNIT.name in line]
    assert not said
    assert verified.returncode == 0, verified.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_the_unit_hardly_exposed() -> None:
    # 0 is closed, 100 wide open; a service without any of these lines is at 96.
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=15", "--no-pager", UNIT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout[-400:] + rated.stderr
