"""Our command as those who deploy it start it: words of a Dockerfile, a compose file, a unit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocketpipe.testing.servers import STOP_TIMEOUT_S

DATA = "/var/lib/rocketpipe"
OURS = (sys.executable, "-m", "rocketpipe.cli.main")
PORT = re.compile(r"^([\d.]+):(?:9876|10911|8080)$")


@contextmanager
def started(
    words: Sequence[str], scratch: Path, *, under: Sequence[str] = (), **extra: str
) -> Iterator[dict[str, str]]:
    """Run our command with its data in a directory and on free ports; gives where it listens.

    ``under`` is a command that runs it, and ``extra`` what the environment has beside.
    """
    free = [PORT.sub(r"\1:0", word.replace(DATA, f"{scratch}/data")) for word in words]
    if words[0] != "namesrv":
        extra = {"ROCKETPIPE_MAPPED_FILE_SIZE_COMMIT_LOG": "1048576", **extra}
    log = scratch / f"{words[0]}.log"
    with log.open("w") as errors:
        child = subprocess.Popen(
            [*under, *OURS, *free],
            cwd=scratch,
            env=os.environ | {"HOME": str(scratch)} | extra,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    with child:
        assert child.stdout is not None
        try:
            ready = next((line for line in child.stdout if line.startswith("ready ")), None)
            assert ready is not None, log.read_text()
            yield dict(word.split("=", 1) for word in ready.split()[1:])
        finally:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(STOP_TIMEOUT_S)
    assert child.returncode == 0, log.read_text()


def run(*words: str, name_server: str) -> str:
    """Run our command to its end, and give what it printed."""
    done = subprocess.run(
        [*OURS, *words],
        env=os.environ | {"ROCKETPIPE_NAMESRV": name_server.replace("0.0.0.0", "127.0.0.1")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
