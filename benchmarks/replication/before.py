"""Our broker as of an earlier commit, to see what is paid by those who have no replicas.

Its sources come from this repository's history, with compiled twins of their own, and run in the
same Python with the same libraries.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.broker.generator import BUILD, Unavailable
from benchmarks.replication.groups import Ground, Replica, ours

#: The last commit without replication.
COMMIT: Final = "eb72a68"
_ROOT: Final = Path(__file__).parent.parent.parent
_NEEDED: Final = ("src", "setup.py", "pyproject.toml", "README.md")


def before(ground: Ground, name: str) -> list[Replica]:
    """One broker of `COMMIT`.

    Raises:
        Unavailable: If the history does not have it, or it cannot be built.
    """
    sources = built(COMMIT)
    replica = ours(ground, name, 0, more={}, words=[])
    replica.environment = {"PYTHONPATH": str(sources)}
    return [replica]


def built(commit: str, build: Path = BUILD) -> Path:
    """The sources of a commit with their twins, made once; what goes into ``PYTHONPATH``.

    Raises:
        Unavailable: If the history does not have it, or it cannot be built.
    """
    made = build / f"before-{commit}"
    if not made.exists():
        build.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=build) as scratch:
            files = _run(["git", "archive", commit, *_NEEDED], _ROOT)
            with tarfile.open(fileobj=io.BytesIO(files)) as archive:
                archive.extractall(scratch, filter="data")
            _run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], Path(scratch))
            Path(scratch, "src").rename(made)
    return made


def _run(command: list[str], directory: Path) -> bytes:
    try:
        return subprocess.run(command, cwd=directory, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode(errors="replace").strip()
        raise Unavailable(f"{' '.join(command[:3])}: {said or error}") from error
