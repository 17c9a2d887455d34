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
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.dockerfile import DEPLOY, ROOT, rests, sent_to_the_engine, stages

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.loading import broker_settings
from rocketpipe.broker.presence import fast_port
from rocketpipe.cli.main import NOUNS, parser_of
from rocketpipe.namesrv.config import NamesrvConfig

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


def test_the_image_copies_what_there_is() -> None:
    for stage in stages():
        assert {word for word, _ in stage} <= INSTRUCTIONS
        for rest in rests(stage, "COPY"):
            *sources, _ = rest.split()
            for source in sources:
                path = ROOT / source
                files = [file for file in path.rglob("*.py") if file.is_file()] or [path]
                assert all(file.is_file() for file in files), f"COPY {source}: there is none"
                assert all(map(sent_to_the_engine, files)), f"COPY {source}: is not sent"


def test_the_engine_is_sent_nothing_that_was_made() -> None:
    for name in (
        "Makefile",
        "tests/test_deploy.py",
        "requirements/dev.txt",
        "src/rocketpipe/record/_hot.cpython-311-x86_64-linux-gnu.so",
        "src/rocketpipe/__pycache__/errors.cpython-311.pyc",
        "src/rocketpipe.egg-info/PKG-INFO",
    ):
        assert not sent_to_the_engine(ROOT / name), name
    assert sent_to_the_engine(ROOT / "src/rocketpipe/py.typed")


def test_the_image_installs_only_what_is_pinned() -> None:
    build, final = stages()
    for line in rests(build, "RUN"):
        for each in line.split("&&"):
            words = shlex.split(each)
            assert words[0] == "pip"
            assert "--require-hashes" in words or {"--no-deps", "--no-build-isolation"} <= {*words}
            for file in (after for word, after in pairwise(words) if word == "-r"):
                assert "--hash=sha256:" in (ROOT / file).read_text()
    (line,) = rests(final, "RUN")
    words = shlex.split(line.partition("&&")[0])
    assert {"--no-index", "--find-links"} <= {*words}
    assert "rocketpipe[cluster,compression,fast]" in words
    pinned = set(re.findall(r"^([\w-]+)==", (ROOT / "requirements/server.txt").read_text(), re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["cluster"], *extras["compression"], *extras["fast"]]
    assert pinned >= {re.split(r"[<>=!~ ;\[]", each)[0] for each in wanted}


def test_the_image_serves_as_nobody_in_particular() -> None:
    final = dict(stages()[-1])
    assert f" --uid {final['USER']} " in final["RUN"]
    assert int(final["USER"]) > 0
    assert f" --home-dir {DATA} --create-home " in final["RUN"]
    assert final["VOLUME"] == final["WORKDIR"] == DATA
    assert json.loads(final["ENTRYPOINT"]) == ["rocketpipe"]
    options = command(json.loads(final["CMD"]))
    assert (options.command, options.data, options.insecure) == ("serve", DATA, True)
    ports = [str(port) for _, port in (options.namesrv, options.broker, options.http)]
    second = str(options.broker[1] - fast_port.BELOW)
    assert sorted(final["EXPOSE"].split()) == sorted([*ports, second])
    by_default = [str(config.port) for config in (NamesrvConfig(), BrokerConfig(data=Path(DATA)))]
    assert ports[:2] == by_default
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
