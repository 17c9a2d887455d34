"""Run the code printed in README.md and docs/, page by page.

The blocks of a page marked ```python run one after the other in one process, so that a page may
build on what it showed above; a block that is not meant to run is marked ```python no-run. Commands
run in their turn if they are marked ```sh run, and each must succeed. Where a page tells the reader
to start ``rocketpipe serve``, or ``rocketpipe cluster up``, it is started first, on free ports, and
the page's code is pointed to it. All pages that want plain servers get the same ones, as a reader
does who goes from page to page: so each has topics and groups of its own. Blocks keep the line
numbers that they have in the page, so that a traceback points there. Pages that use Spark share a
process, one after the other: a Java of its own for each takes longer than what most of them do with
it.

Pages in Chinese have the code of the English ones, as tests/test_docs.py sees to.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import repeat
from pathlib import Path

from rocketpipe.testing import servers

PAGE_TIMEOUT_S = 300  # one that starts Spark takes half a minute, and more on a busy machine
PRINTED_ADDRESS = "127.0.0.1:9876"
PRINTED_GRPC = "127.0.0.1:8081"

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
# Compiled under the page's name, so that a traceback points into the page. How many pages failed is
# its exit code.
ONE_BY_ONE = """
import json, os, sys, traceback

failed = 0
for path, program, directory, name_server in json.load(sys.stdin):
    os.chdir(directory)
    os.environ["ROCKETPIPE_NAMESRV"] = name_server
    try:
        exec(compile(program, path, "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        failed += 1
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession
        if session := SparkSession.getActiveSession():
            session.stop()
sys.exit(failed)
"""


class PagesFailed(Exception):
    """Code of so many pages, or the servers that it asks for, did not run."""

    def __init__(self, reason: str, count: int = 1) -> None:
        super().__init__(reason)
        self.count = count


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


def shown(page: str, *command: str) -> list[str] | None:
    """The arguments of the first such command that the page shows, or None."""
    for block in FENCE.finditer(page):
        if block["info"].split() == ["sh"]:
            for line in block["body"].replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[: len(command)] == list(command):
                    return words[len(command) :]
    return None


@contextmanager
def cluster(scratch: Path, arguments: Sequence[str]) -> Iterator[str]:
    """Run ``rocketpipe cluster up`` there, on free ports, and give its name server.

    Raises:
        PagesFailed: it does not start.
    """
    words = [*arguments]
    if "--namesrv-port" in words:
        at = words.index("--namesrv-port")
        del words[at : at + 2]
    up = subprocess.Popen(
        [sys.executable, "-m", "rocketpipe.cli.main", "cluster", "up", *words],
        cwd=scratch,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with up:
        try:
            said = []
            assert up.stdout is not None
            for line in up.stdout:
                said.append(line)
                if line.startswith("ready namesrv="):
                    break
            else:
                raise PagesFailed(f"rocketpipe cluster up did not start\n{''.join(said)}")
            yield said[-1].partition("=")[2].strip()
        finally:
            up.terminate()
            # It says what happens: nobody who does not read it is waited for.
            up.communicate()


def is_plain(page: str) -> bool:
    """Whether a page asks for servers as any other's would do; where their data is, is ours."""
    arguments = shown(page, "rocketpipe", "serve")
    return arguments is not None and arguments[:1] in ([], ["--data"]) and len(arguments) <= 2


def served(path: Path, stack: ExitStack, shared: str | None) -> tuple[str, str, str, str]:
    """What a page runs, where, and by which name server, which serves as long as the stack lives.

    ``shared`` is the name server of the servers that serve all pages.

    Raises:
        PagesFailed: the servers that it asks for do not start.
    """
    page = path.read_text(encoding="utf-8")
    program, scratch = runnable(page), stack.enter_context(tempfile.TemporaryDirectory())
    if (arguments := shown(page, "rocketpipe", "cluster", "up")) is not None:
        name_server = stack.enter_context(cluster(Path(scratch), arguments))
        return str(path), program.replace(PRINTED_ADDRESS, name_server), scratch, name_server
    if (arguments := shown(page, "rocketpipe", "serve")) is None:
        return str(path), program, scratch, PRINTED_ADDRESS
    name_server = shared if shared is not None and is_plain(page) else None
    if name_server is None:
        free = [word.replace(PRINTED_GRPC, "127.0.0.1:0") for word in arguments]
        running = started(Path(scratch), free, stack)
        name_server = running.name_server
        program = program.replace(PRINTED_GRPC, running.grpc or PRINTED_GRPC)
    return str(path), program.replace(PRINTED_ADDRESS, name_server), scratch, name_server


def started(scratch: Path, arguments: Sequence[str], stack: ExitStack) -> servers.Servers:
    """Start ``rocketpipe serve`` for as long as the stack lives.

    Raises:
        PagesFailed: it does not start.
    """
    try:
        return stack.enter_context(servers.serving(scratch, arguments))
    except servers.ServersFailed as error:
        log = (scratch / servers.LOG_NAME).read_text(encoding="utf-8")
        raise PagesFailed(f"rocketpipe serve: {error}\n{log}") from error


def run_together(pages: Sequence[Path], shared: str | None = None) -> None:
    """Run pages one after the other in one process, each in a directory of its own.

    Raises:
        PagesFailed: code does not do what its page says; with all that was printed.
    """
    timeout_s = PAGE_TIMEOUT_S * len(pages)
    with ExitStack() as stack:
        jobs = [served(page, stack, shared) for page in pages]
        try:
            done = subprocess.run(
                [sys.executable, "-c", ONE_BY_ONE],
                input=json.dumps(jobs),
                cwd=jobs[0][2],
                env={
                    **os.environ,
                    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                    # RocketMQ's own client writes a log at home.
                    **({"HOME": jobs[0][2]} if "from rocketmq import" in jobs[0][1] else {}),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PagesFailed(f"still running after {timeout_s} s", len(pages)) from error
    if done.returncode:  # a signal ends all that had not ended yet
        failed = done.returncode if 0 < done.returncode <= len(pages) else len(pages)
        raise PagesFailed(done.stdout, failed)


def run_lane(groups: Iterable[Sequence[Path]], shared: str | None) -> int:
    """Run groups one after the other, print why pages failed, and give how many did."""
    failed = 0
    for pages in groups:
        try:
            run_together(pages, shared)
        except PagesFailed as error:
            failed += error.count
            print(f"{', '.join(map(str, pages))}: {error}")
    return failed


def main() -> int:
    root = Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description="Run the code in README.md and docs/.")
    parser.add_argument("pages", nargs="*", type=Path)
    pages = parser.parse_args().pages or [
        root / "README.md",
        *(page for page in sorted((root / "docs").rglob("*.md")) if ".zh" not in page.suffixes),
    ]
    with_code = [page for page in pages if runnable(page.read_text(encoding="utf-8")).strip()]
    # Spark alone keeps two cores busy, and its workers have ten seconds to start: one at a time.
    with_spark = [page for page in with_code if "pyspark" in page.read_text(encoding="utf-8")]
    alone = [[page] for page in with_code if page not in with_spark]
    lanes = (alone, [with_spark] if with_spark else [])
    with ExitStack() as stack:
        shared = None
        if any(is_plain(page.read_text(encoding="utf-8")) for page in with_code):
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            shared = started(Path(scratch), (), stack).name_server
        threads = stack.enter_context(ThreadPoolExecutor(2))
        failed = sum(threads.map(run_lane, lanes, repeat(shared)))
    print(f"snippets: {len(with_code) - failed} of {len(with_code)} pages with code ran")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
