"""How tests speak to a cluster that runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.cli.main import main


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Say a verb to the cluster in a directory; gives what was printed, or the error."""

    def run(directory: Path, *words: str, code: int = 0) -> str:
        assert main(["cluster", *words, "--data", str(directory)]) == code, capsys.readouterr()
        printed = capsys.readouterr()
        return printed.out if code == 0 else printed.err

    return run


@pytest.fixture
def rows(say: Callable[..., str]) -> Callable[[Path], dict[str, Any]]:
    """The rows of `cluster status`, by name."""
    return lambda directory: {
        row["name"]: row for row in json.loads(say(directory, "status", "-o", "json"))
    }
