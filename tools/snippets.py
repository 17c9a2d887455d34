"""Run the Python code printed in README.md and docs/, page by page.

The blocks of a page marked ```python run one after the other in one process, so that a page may
build on what it showed above; a block that is not meant to run is marked ```python no-run. A page
fails with the traceback of its own lines: blocks keep the line numbers they have in the page.

Pages speak of a NameServer at 127.0.0.1:9876. One is started, with a broker, for all pages, on free
ports, and its address is put in place of that one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rocketpipe.testing import servers

PAGE_TIMEOUT_S = 300
USUAL_ADDRESS = "127.0.0.1:9876"
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S
)

# Compiled under the page's name, so that a traceback points into the page.
UNDER_ITS_NAME = """
import sys
exec(compile(sys.stdin.read(), sys.argv[1], "exec"), {"__name__": "__main__"})
"""


def runnable(page: str) -> str:
    """The page as a program: its code where it stood, and every other line empty."""
    lines = [""] * page.count("\n")
    for block in FENCE.finditer(page):
        if block["info"].split() != ["python"]:
            continue
        first = page.count("\n", 0, block.start("body"))
        for number, line in enumerate(block["body"].splitlines(), first):
            lines[number] = line.removeprefix(block["indent"])
    return "\n".join(lines) + "\n"


def run(path: Path, name_server: str) -> bool:
    """Run one page in a directory of its own; print its output when it fails."""
    program = runnable(path.read_text(encoding="utf-8")).replace(USUAL_ADDRESS, name_server)
    command = [sys.executable, "-c", UNDER_ITS_NAME, str(path)]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            done = subprocess.run(
                command,
                input=program,
                cwd=scratch,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PAGE_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"{path}: still running after {PAGE_TIMEOUT_S} s")
            return False
    if done.returncode:
        print(f"{path}: failed\n{done.stdout}")
    return done.returncode == 0


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Run the code in README.md and docs/.")
    parser.add_argument("pages", nargs="*", type=Path)
    pages = parser.parse_args().pages or [
        root / "README.md",
        *sorted((root / "docs").rglob("*.md")),
    ]
    with_code = [page for page in pages if runnable(page.read_text(encoding="utf-8")).strip()]
    with tempfile.TemporaryDirectory() as scratch, servers.serving(Path(scratch)) as running:
        failed = [page for page in with_code if not run(page, running.name_server)]
    print(f"snippets: {len(with_code) - len(failed)} of {len(with_code)} pages with code ran")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
