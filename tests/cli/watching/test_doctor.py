"""``rocketpipe doctor`` against real servers."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rocketpipe.cli.main import asks_brokers, main, parser_of
from rocketpipe.client.admin import diagnosis, findings, replica_findings
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


def test_a_cluster_is_looked_over_with_a_remedy_for_what_is_found(
    servers: Servers, command: Command, answer: Answer
) -> None:
    command("topic", "create", "orders", "-q", "1")
    text = command("doctor")
    assert f"ok       NameServer {servers.name_server}: answers" in text
    assert f"broker broker-a at {servers.broker}: answers" in text
    assert text.splitlines()[-1].endswith("unknown")
    command("topic", "update", "orders", "--perm", "r")
    rows = answer("doctor", "--quiet")
    assert all(row["level"] != "ok" for row in rows)
    (topic,) = [row for row in rows if row["what"] == "topic orders"]
    assert topic == {
        "level": "warning",
        "what": "topic orders",
        "detail": "may not be written anywhere",
        "remedy": "if that is not meant: rocketpipe topic update orders --perm rw",
    }
    assert "warning  topic orders: may not" in command("doctor", "-q")


def test_a_problem_is_the_exit_code(
    servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none"
    words = ["doctor", "-n", servers.name_server, "--data", str(missing), "-o", "json"]
    assert main(words) == 1
    (found,) = [row for row in json.loads(capsys.readouterr().out) if row["level"] == "problem"]
    assert found["detail"] == "is not there"
    assert main(["doctor", "-n", "127.0.0.1:1"]) == 1
    assert "problem  NameServer 127.0.0.1:1: " in capsys.readouterr().out


@pytest.mark.parametrize("module", [findings, diagnosis, replica_findings])
def test_the_commands_of_remedies_are_understood(module: ModuleType) -> None:
    source = re.sub(r'"\s*f?"', "", inspect.getsource(module))
    word = r"(?:\{[\w.]+\}|-[\w-]+|\w+=[\w{}]+|\d|DIR|NAME|FILE)"
    commands = re.findall(rf"rocketpipe ([a-z]+ [a-zA-Z]+(?: {word})*(?: rw\b)?)", source)
    for command in commands:
        words = re.sub(r"\{[\w.]+\}", "1", command).split()  # a name, or a number
        parser_of(words[:1], running=asks_brokers(words)).parse_args(words)
    assert commands or module is not findings
