"""Run the fuzz of the compiled twins with every access to memory checked.

python -m tools.packaging.sanitized

    1  build the twins in a copy of the tree, by gcc with -fsanitize=address,undefined
    2  run the tests that feed them bytes there, in a Python that was given the sanitizers' library
       first: `TESTS`

What reads or writes beside its bytes, or does what C leaves undefined, ends the run with a report.
Where there is no gcc, or it came without that library, this says so and is no failure.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.packaging.wheels import NOT_COPIED, ROOT, plain_environment

SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all"
LIBRARY = "libasan.so"
TESTS = (
    "tests/fuzz/test_twins.py",
    "tests/pipeline/columns/test_flat_json.py",
    "tests/pipeline/log/test_sweep.py",
)


class Unchecked(Exception):
    """It cannot be done on this machine; the message says why."""


class BuildFailed(Exception):
    """The twins were not built; the message has the output."""


def say(text: str) -> None:
    print(f"sanitized: {text}", flush=True)


def find_library(gcc: str | None) -> Path:
    """Find what has to be loaded before a Python that loads the twins.

    Raises:
        Unchecked: There is no gcc, or no library beside it.
    """
    if gcc is None:
        raise Unchecked("there is no gcc on this machine")
    asked = [gcc, f"-print-file-name={LIBRARY}"]
    found = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    if not found.is_absolute() or not found.exists():  # a name that it does not know comes back
        raise Unchecked(f"{gcc} has no {LIBRARY}")
    return found


def build(tree: Path, gcc: str) -> None:
    """Build the twins of a tree beside their sources.

    Raises:
        BuildFailed: Not all of them are there.
    """
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=tree,
        env=plain_environment() | {"CC": gcc, "CFLAGS": SANITIZE, "LDFLAGS": SANITIZE},
        capture_output=True,
        text=True,
        check=False,
    )
    sources = list((tree / "src").rglob("_*.pyx"))
    missing = [each.name for each in sources if not any(each.parent.glob(f"{each.stem}.*.so"))]
    if done.returncode or missing:
        raise BuildFailed(f"not built: {missing}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def fuzz(tree: Path, library: Path) -> int:
    """Run the tests with the twins of this tree, and give how pytest ended."""
    checked = {
        "PYTHONPATH": str(tree / "src"),
        "PYTHONMALLOC": "malloc",  # or small objects share blocks, and hide what is beside them
        "LD_PRELOAD": str(library),
        # Python frees little when it ends, and takes a refusal of memory for an answer.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "ROCKETPIPE_PURE": "0",  # a twin that does not load is an error, not a skipped test
        "ROCKETPIPE_ALL_FAULTS": "1",
    }
    # A report is written to the descriptor, just before the end: pytest must not keep it to itself.
    command = [sys.executable, "-m", "pytest", "--timeout=7200", "--capture=sys", *TESTS]
    return subprocess.run(
        command, cwd=tree, env=plain_environment() | checked, check=False
    ).returncode


def main() -> int:
    gcc = shutil.which("gcc")
    try:
        library = find_library(gcc)
    except Unchecked as error:
        say(f"left out: {error}")
        return 0
    assert gcc is not None
    with tempfile.TemporaryDirectory(prefix="rocketpipe-sanitized-") as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED))
        try:
            build(tree, gcc)
        except BuildFailed as error:
            say(str(error))
            return 1
        return fuzz(tree, library)


if __name__ == "__main__":
    sys.exit(main())
