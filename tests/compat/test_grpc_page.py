"""The Java and Go programs of ``docs/how-to/grpc.md``, compiled and run as printed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.clients import installing
from tests.compat.clients.grpc_targets import GrpcTarget, grpc_target
from tests.compat.test_grpc_clients import JAVA

from rocketpipe.model.topic import MessageType

pytestmark = pytest.mark.compat

PAGE = installing.ROOT / "docs" / "how-to" / "grpc.md"
PATIENCE_S = 280


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcTarget]:
    with grpc_target("ours", tmp_path_factory.mktemp("page")) as running:
        running.make_topic("mail", MessageType.NORMAL)
        yield running


def program(language: str, address: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "127.0.0.1:8081" in block
    return block.replace("127.0.0.1:8081", address)


def test_java(target: GrpcTarget, tmp_path: Path) -> None:
    java, made = installing.java_program("GrpcClient", "rocketmq-client-java", JAVA)
    (tmp_path / "Mail.java").write_text(program("java", target.address))
    classes = ["-cp", f"{made / 'jars'}/*:{tmp_path}"]
    run([str(java.with_name("javac")), *classes, "Mail.java"], tmp_path)
    assert "received 01" in run([str(java), f"-Duser.home={tmp_path}", *classes, "Mail"], tmp_path)


def test_go(target: GrpcTarget, tmp_path: Path) -> None:
    installing.go_program("go5")  # skips where it cannot be had
    for name in ("go.mod", "go.sum"):
        shutil.copy(installing.HERE / "go5" / name, tmp_path / name)
    (tmp_path / "main.go").write_text(program("go", target.address))
    run(["go", "build", "-o", "mail", "."], tmp_path)
    assert "received 01" in run([str(tmp_path / "mail")], tmp_path)


def run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
