"""The command as spark-submit starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rocketpipe._version import __version__
from rocketpipe.cli import submitted


def test_the_file_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, submitted.__file__, "--version"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout == f"rocketpipe {__version__}\n"
