"""The pages of docs/reference say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reference"


def printed(directory: Path, *pages: str) -> dict[str, str]:
    subprocess.run(
        [sys.executable, "-m", "tools.docs.reference", directory, *pages],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return {
        path.relative_to(directory).as_posix(): path.read_text() for path in directory.rglob("*.md")
    }


def test_command_errors_and_api_are_what_the_program_prints(tmp_path: Path) -> None:
    api = [path.relative_to(PAGES).with_suffix("").as_posix() for path in PAGES.rglob("api/*.md")]
    pages = printed(tmp_path, "cli", "errors", "api", *api)
    assert len(pages) == 3 + len(api)
    for name, text in pages.items():
        assert (PAGES / name).read_text() == text, f"docs/reference/{name}: make docs"


@pytest.mark.scenario
def test_metrics_are_what_a_broker_measures(tmp_path: Path) -> None:
    (text,) = printed(tmp_path, "metrics").values()
    assert (PAGES / "metrics.md").read_text() == text, "docs/reference/metrics.md: make docs"


def test_a_page_that_there_is_not_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.docs.reference", tmp_path, "recipes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no such page: recipes; there are cli, errors" in done.stderr


def test_no_page_names_a_place_in_memory() -> None:
    for path in PAGES.rglob("*.md"):
        assert " at 0x" not in path.read_text(), path.name


PARTS = """
def told():
    "Says something."

def silent(): ...

class Half:
    "Says something."
    def method(self): ...
"""

PRINTED = """
import sys
sys.path.insert(0, sys.argv[1])
import rocketpipe
from tools.docs import api_entry, api_pages

for name in ("told", "silent", "Half"):
    try:
        print(*api_entry.entry(api_entry.Name("rocketpipe_parts", name), "##"))
    except api_entry.Silent as error:
        print(error)
rocketpipe.__all__.append("main")
rocketpipe.main = print
print(api_pages.unlisted())
"""


def test_a_public_name_without_a_docstring_or_a_page_is_named(tmp_path: Path) -> None:
    (tmp_path / "rocketpipe_parts.py").write_text(PARTS)
    done = subprocess.run(
        [sys.executable, "-c", PRINTED, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "told()\n" in done.stdout, done.stderr
    assert "silent says nothing about itself" in done.stdout
    assert "Half.method says nothing about itself" in done.stdout
    assert "['rocketpipe.main']" in done.stdout


def test_signatures_have_types_defaults_results_and_what_is_raised() -> None:
    text = (PAGES / "api" / "producing.md").read_text()
    send = text.partition("### Producer.send\n")[2].partition("### Producer.send_async")[0]
    assert "    timeout_ms: int | None = None,\n" in send
    assert ") -> SendResult\n" in send
    assert "- `CallTimeout`: If no answer came in time; the message may be stored." in send
    assert "| `durable` | `bool \\| None` |  | Whether the broker has it as safe" in text
