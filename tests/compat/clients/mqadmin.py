"""RocketMQ's own ``mqadmin`` in a Java that stays, so that each command takes little."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.compat.clients.installing import java_tools

VERSION = "5.3.3"


class Admin:
    """A Java that runs commands of mqadmin, one after another."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def run(self, words: str) -> str:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write("\x1f".join(words.split()) + "\n")
        self._child.stdin.flush()
        return base64.b64decode(self._child.stdout.readline()).decode()


@contextmanager
def started(
    name_server: str, scratch: Path, *options: str, version: str = VERSION
) -> Iterator[Admin]:
    """Run it for the length of the block."""
    java, place = java_tools(version)
    child = subprocess.Popen(
        [
            str(java),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"-Duser.home={scratch}", f"-Djava.io.tmpdir={scratch}"),
            *options,
            *("-cp", f"{place}/classes:{place}/jars/*", "Admin", name_server),
        ],
        cwd=scratch,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with child:
        try:
            yield Admin(child)
        finally:
            child.kill()
