"""docs/reference/compatibility.md says what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rocketpipe.protocol.codes import RequestCode

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "compatibility.md"


def test_the_page_is_what_the_program_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tools.docs.compatibility"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout.decode()
    assert PAGE.read_text() == printed, (
        "python -m tools.docs.compatibility > docs/reference/compatibility.md"
    )


def test_the_page_names_every_code_once() -> None:
    page = PAGE.read_text()
    for code in RequestCode:
        assert page.count(f"| {int(code)} | {code.name} |") == 1
