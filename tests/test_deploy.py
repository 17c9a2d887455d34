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
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.presence import fast_port
from rocketpipe.cli.main import NOUNS, parser_of
from rocketpipe.namesrv.config import NamesrvConfig

UNIT = DEPLOY / "rocketpipe.service"
REPLICAS = DEPLOY / "replicas"
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
    assert "rocketpipe[cluster,compression,console,fast,grpc,tls]" in words
    pinned = set(re.findall(r"^([\w-]+)==", (ROOT / "requirements/server.txt").read_text(), re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = list(project["dependencies"])
    for extra in ("cluster", "compression", "console", "fast", "grpc", "tls"):
        wanted += extras[extra]
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
    ports = [str(port) for _, port in (options.namesrv, options.broker, options.grpc, options.http)]
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


def unit(*drop_ins: str) -> configparser.ConfigParser:
    """The service, with what drop-ins make of it: here, as there, the last word counts."""
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    for path in (UNIT, *(REPLICAS / name for name in drop_ins)):
        read.read_string(path.read_text().replace("\\\n", " "))
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
@pytest.mark.parametrize("drop_in", [None, "broker-unit.conf", "namesrv-unit.conf"])
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, drop_in: str | None) -> None:
    # It also looks for the program, which is not installed where the unit wants it.
    ours = tmp_path / UNIT.name
    program = unit()["Service"]["ExecStart"].split()[0]
    ours.write_text(UNIT.read_text().replace(program, sys.executable))
    if drop_in is not None:
        beside = tmp_path / f"{UNIT.name}.d"
        beside.mkdir()
        text = (REPLICAS / drop_in).read_text().replace(program, sys.executable)
        (beside / drop_in).write_text(text)
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


@pytest.fixture(scope="module")
def replicas() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((REPLICAS / "compose.yaml").read_text())
    return read


def _brokers(replicas: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in replicas["services"].items() if "broker" in name}


def test_three_replicas_in_compose_are_one_broker(replicas: dict[str, Any]) -> None:
    brokers = _brokers(replicas)
    assert len(brokers) == 3
    volumes, ports = set(), set()
    for name, service in brokers.items():
        environment = dict(service["environment"])
        assert all(map(known_to_the_environment, environment)), environment
        # Replicas and clients find it by this name.
        assert environment.pop("ROCKETPIPE_ADVERTISE") == name
        assert environment == {
            key: value
            for key, value in brokers["broker-1"]["environment"].items()
            if key != "ROCKETPIPE_ADVERTISE"
        }
        options = command([str(word) for word in service["command"]])
        assert (options.command, options.data, options.insecure) == ("broker", DATA, True)
        assert {port.split(":")[2] for port in service["ports"]} == {
            options.port,
            str(int(options.port) - fast_port.BELOW),
        }
        ports |= {*service["ports"]}
        (volume,) = service["volumes"]
        volumes.add(volume.partition(":")[0])
    assert len(ports) == 6
    assert len(volumes) == 3


def test_three_replicas_in_compose_are_closed_to_other_machines(replicas: dict[str, Any]) -> None:
    ours = {**_brokers(replicas), "namesrv": replicas["services"]["namesrv"]}
    assert command([str(word) for word in ours["namesrv"]["command"]]).command == "namesrv"
    for name, service in ours.items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        context = REPLICAS / service["build"]["context"]
        assert (context / service["build"]["dockerfile"]).is_file()
    assert "ports" not in replicas["services"]["zookeeper"]
    for service in replicas["services"].values():
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in replicas["volumes"]


def test_a_session_that_a_replica_asks_for_is_granted_by_the_zookeeper_of_compose(
    replicas: dict[str, Any],
) -> None:
    tick_ms = int(replicas["services"]["zookeeper"]["environment"]["ZOO_TICK_TIME"])
    assert 2 * tick_ms <= ReplicationConfig().session_ms <= 20 * tick_ms


def test_the_settings_of_a_replica_are_what_they_say() -> None:
    options = command(_words_of_the_replica())
    assert (options.command, options.data, options.insecure) == ("broker", DATA, True)
    conf = REPLICAS / options.config[0].name
    checked = subprocess.run(
        [sys.executable, "-m", "rocketpipe.cli.main", "config", "check", conf],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert ", 0 warnings" in checked.stdout, checked.stdout


def test_a_name_server_beside_a_replica_has_a_place_of_its_own() -> None:
    service = unit("namesrv-unit.conf")["Service"]
    _, *words = shlex.split(service["ExecStart"])
    options = command(words)
    assert (options.command, options.insecure) == ("namesrv", True)
    assert options.http != command(_words_of_the_replica()).http
    kept = Path(service["Environment"].partition("=")[2])
    assert kept.parent == Path("/var/lib") / service["StateDirectory"]
    assert kept.parent != Path(DATA)


def _words_of_the_replica() -> list[str]:
    return shlex.split(unit("broker-unit.conf")["Service"]["ExecStart"])[1:]
