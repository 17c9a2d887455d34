"""Programs that use the clients, as a strict type checker sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("uses_of_the_client.py")


def test_what_is_right_passes_and_what_is_wrong_is_refused() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(PROGRAM)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
