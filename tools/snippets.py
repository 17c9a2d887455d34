"""Run the code printed in README.md and docs/, page by page.

The blocks of a page marked ```python run one after the other in one process, so that a page may
build on what it showed above; a block that is not meant to run is marked ```python no-run. Commands
run in their turn if they are marked ```sh run, and each must succeed. Where a page tells the reader
to start ``rocketpipe serve``, it is started first, on free ports, and the page's code is pointed to
it. Blocks keep the line numbers that they have in the page, so that a traceback points there.

Pages in Chinese have the code of the English ones, as tests/test_docs.py sees to.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rocketpipe.testing import servers

PAGE_TIMEOUT_S = 300  # one that starts Spark takes half a minute, and more on a busy machine
PRINTED_ADDRESS = "127.0.0.1:9876"

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
# Compiled under the page's name, so that a traceback points into the page.
UNDER_ITS_NAME = """
import sys
exec(compile(sys.stdin.read(), sys.argv[1], "exec"), {"__name__": "__main__"})
"""


class PageFailed(Exception):
    """A page's code, or the servers that it asks for, did not run."""


def runnable(page: str) -> str:
    """The page as a program: its code where it stood, and every other line empty."""
    lines = [""] * page.count("\n")
    for block in FENCE.finditer(page):
        first = page.count("\n", 0, block.start("body"))
        if block["info"].split() == ["sh", "run"]:
            script = textwrap.dedent(block["body"])
            lines[first] = f'__import__("subprocess").run(["sh", "-ec", {script!r}], check=True)'
        if block["info"].split() != ["python"]:
            continue
        for number, line in enumerate(block["body"].splitlines(), first):
            lines[number] = line.removeprefix(block["indent"])
    return "\n".join(lines) + "\n"


def serve_command(page: str) -> list[str] | None:
    """The arguments of the first ``rocketpipe serve`` that the page shows, or None."""
    for block in FENCE.finditer(page):
        if block["info"].split() == ["sh"]:
            for line in block["body"].splitlines():
                words = shlex.split(line, comments=True)
                if words[:2] == ["rocketpipe", "serve"]:
                    return words[2:]
    return None


def run_program(path: Path, program: str, directory: Path, name_server: str = "") -> None:
    """Run a page's code, whose commands find the name server by themselves.

    Raises:
        PageFailed: with all that it printed.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", UNDER_ITS_NAME, str(path)],
            input=program,
            cwd=directory,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "ROCKETPIPE_NAMESRV": name_server or PRINTED_ADDRESS,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PAGE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PageFailed(f"still running after {PAGE_TIMEOUT_S} s") from error
    if done.returncode:
        raise PageFailed(done.stdout)


def run_page(path: Path) -> None:
    """Run one page, in a directory of its own.

    Raises:
        PageFailed: its code does not do what the page says.
    """
    page = path.read_text(encoding="utf-8")
    arguments = serve_command(page)
    with tempfile.TemporaryDirectory() as scratch:
        if arguments is None:
            run_program(path, runnable(page), Path(scratch))
            return
        try:
            with servers.serving(Path(scratch), arguments) as running:
                program = runnable(page).replace(PRINTED_ADDRESS, running.name_server)
                run_program(path, program, Path(scratch), running.name_server)
        except servers.ServersFailed as error:
            log = Path(scratch, servers.LOG_NAME).read_text(encoding="utf-8")
            raise PageFailed(f"rocketpipe serve: {error}\n{log}") from error


def run_lane(pages: Iterable[Path]) -> int:
    """Run pages one after the other; how many failed is returned, and why is printed."""
    failed = 0
    for page in pages:
        try:
            run_page(page)
        except PageFailed as error:
            failed += 1
            print(f"{page}: {error}")
    return failed


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Run the code in README.md and docs/.")
    parser.add_argument("pages", nargs="*", type=Path)
    pages = parser.parse_args().pages or [
        root / "README.md",
        *(page for page in sorted((root / "docs").rglob("*.md")) if ".zh" not in page.suffixes),
    ]
    with_code = [page for page in pages if runnable(page.read_text(encoding="utf-8")).strip()]
    # Spark alone keeps two cores busy, and its workers have ten seconds to start: one at a time.
    lanes: tuple[list[Path], list[Path]] = ([], [])
    for page in with_code:
        lanes["pyspark" in page.read_text(encoding="utf-8")].append(page)
    with ThreadPoolExecutor(len(lanes)) as threads:
        failed = sum(threads.map(run_lane, lanes))
    print(f"snippets: {len(with_code) - failed} of {len(with_code)} pages with code ran")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
