"""Programs of other people: the machine's own, or out of a Debian package, without root.

A package is downloaded with the machine's ``apt-get`` and unpacked into the user's cache, where the
next run finds it. Nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.broker.generator import Unavailable

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketpipe-bench"
DOWNLOAD_TIMEOUT_S: Final = 120


@dataclass(frozen=True, slots=True)
class Program:
    """What to start, and the environment in which it finds its libraries."""

    path: Path
    environment: Mapping[str, str]


def find_program(name: str, packages: Sequence[str], cache: Path = CACHE) -> Program:
    """Find a program, fetching Debian's packages for it if the machine has none.

    Raises:
        Unavailable: If it is neither there nor to be had.
    """
    installed = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if installed:
        return Program(Path(installed), os.environ)
    kept = cache / name
    if not kept.is_dir():
        _fetch(name, packages, kept)
    found = [path for path in kept.glob("usr/*bin/*") if path.name == name]
    if not found:
        raise Unavailable(f"{name}: Debian's packages {', '.join(packages)} do not hold it")
    libraries = ":".join(str(path) for path in sorted(kept.glob("usr/lib/*-linux-gnu*")))
    return Program(found[0], {**os.environ, "LD_LIBRARY_PATH": libraries})


def _fetch(name: str, packages: Sequence[str], kept: Path) -> None:
    """Unpack packages into a directory, whole or not at all."""
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{name} is not installed, and there is no {tool} to fetch it with")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as directory:
        scratch = Path(directory)
        _run(name, ["apt-get", "-q", "download", *packages], scratch)
        for archive in sorted(scratch.glob("*.deb")):
            _run(name, ["dpkg", "-x", archive.name, "unpacked"], scratch)
        try:
            (scratch / "unpacked").rename(kept)
        except OSError:
            if not kept.is_dir():  # or another run was quicker
                raise


def _run(name: str, command: Sequence[str], directory: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(
            f"{name} is not installed, and {command[0]} did not fetch it in {DOWNLOAD_TIMEOUT_S} s"
        ) from error
    if done.returncode != 0:
        said = done.stdout.strip().splitlines() or ["nothing"]
        raise Unavailable(f"{name} is not installed, and {command[0]} says: {said[-1]}")
