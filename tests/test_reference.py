"""The pages of docs/reference say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reference"


def printed(directory: Path, *pages: str) -> dict[str, str]:
    subprocess.run(
        [sys.executable, "tools/reference.py", directory, *pages],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_command_errors_and_api_are_what_the_program_prints(tmp_path: Path) -> None:
    pages = printed(tmp_path, "cli", "errors", "api")
    assert sorted(pages) == ["api.md", "cli.md", "errors.md"]
    for name, text in pages.items():
        assert (PAGES / name).read_text() == text, f"docs/reference/{name}: make docs"


@pytest.mark.scenario
def test_metrics_are_what_a_broker_measures(tmp_path: Path) -> None:
    (text,) = printed(tmp_path, "metrics").values()
    assert (PAGES / "metrics.md").read_text() == text, "docs/reference/metrics.md: make docs"


def test_a_page_that_there_is_not_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "tools/reference.py", tmp_path, "recipes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no such page: recipes; there are cli, errors" in done.stderr


def test_no_page_names_a_place_in_memory() -> None:
    for path in PAGES.iterdir():
        assert " at 0x" not in path.read_text(), path.name
