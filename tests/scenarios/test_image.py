"""The image without an engine: its files make the wheel, its command serves, its probe tells."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.dockerfile import DEPLOY, copy_into, rests, stages
from tests.scenarios.support.deployed import run, started
from tools.packaging.wheel_contents import look_into_wheel

pytestmark = pytest.mark.scenario


@pytest.mark.skipif(find_spec("pip") is None, reason="no pip in .venv")
def test_what_the_image_copies_makes_the_wheel(tmp_path: Path) -> None:
    build = stages()[0]
    context = tmp_path / "src"
    copy_into(context, build)
    program, *words = shlex.split(rests(build, "RUN")[-1].replace("/wheels", f"{tmp_path}/wheels"))
    assert program == "pip"
    subprocess.run(
        [sys.executable, "-m", "pip", *words, "--quiet", "--no-index"],
        cwd=context,
        env=os.environ | {"ROCKETPIPE_PURE": "1"},
        check=True,
    )
    (wheel,) = (tmp_path / "wheels").iterdir()
    look_into_wheel(wheel, context, foreign=[str(tmp_path)])


def probe(address: str) -> int:
    """Run the image's health check, against another port."""
    final = dict(stages()[-1])
    command = json.loads(final["HEALTHCHECK"].partition("CMD ")[2])
    assert command[0] == "python"
    code = command[2].replace("127.0.0.1:8080", address.replace("0.0.0.0", "127.0.0.1"))
    assert code != command[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    return done.returncode


def test_the_image_serves_and_its_probe_tells(tmp_path: Path) -> None:
    command = json.loads(dict(stages()[-1])["CMD"])
    with started(command, tmp_path) as listening:
        assert probe(listening["http"]) == 0
    assert probe(listening["http"]) != 0
    assert (tmp_path / "data" / "commitlog").is_dir()


def test_the_services_of_the_compose_file_find_each_other(tmp_path: Path) -> None:
    composed: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    names, broker = (
        [str(word) for word in composed["services"][name]["command"]]
        for name in ("namesrv", "broker")
    )
    free = {"ROCKETPIPE_LISTEN_PORT": "0"}
    with started(names, tmp_path, **free) as name_server:
        assert probe(name_server["http"]) == 0
        address = name_server["namesrv"].replace("0.0.0.0", "127.0.0.1")
        there = [word.replace("namesrv:9876", address) for word in broker]
        with started(there, tmp_path, **free, ROCKETPIPE_ADVERTISE="127.0.0.1") as running:
            assert probe(running["http"]) == 0
            (listed,) = json.loads(run("broker", "list", "-o", "json", name_server=address))
            assert listed["address"].startswith("127.0.0.1:")
