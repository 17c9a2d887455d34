"""The runner of the documentation's code: what it runs, and that it fails when the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parent.parent / "tools" / "snippets.py"


def run(page: Path, text: str) -> subprocess.CompletedProcess[str]:
    page.write_text(text)
    return subprocess.run([sys.executable, TOOL, page], capture_output=True, text=True, check=False)


def test_the_blocks_of_a_page_build_on_each_other(tmp_path: Path) -> None:
    text = (
        "# Page\n\n```python\nx = 1\n```\nthen\n\n1. step\n   ```python\n   assert x == 1\n   ```\n"
    )
    done = run(tmp_path / "page.md", text)
    assert (done.returncode, done.stdout) == (0, "snippets: 1 of 1 pages with code ran\n")


def test_a_failure_points_to_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    done = run(page, "# Page\n\n```python\nx = 1\nassert x == 2\n```\n")
    assert done.returncode == 1
    assert f'File "{page}", line 5' in done.stdout
    assert "0 of 1" in done.stdout


def test_other_languages_and_what_is_marked_do_not_run(tmp_path: Path) -> None:
    text = "```sh\nexit 1\n```\n\n```python no-run\n1 / 0\n```\n\n```\n1 / 0\n```\n"
    done = run(tmp_path / "page.md", text)
    assert (done.returncode, done.stdout) == (0, "snippets: 0 of 0 pages with code ran\n")
