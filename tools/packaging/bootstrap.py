"""Make `.venv`: what `make setup` runs, with nothing but a bare Python 3.11 or newer.

    1  read the stamp in .venv: done already, for these inputs, in this place? Then that is all
    2  create .venv: by venv; where Debian keeps ensurepip apart, by uv, virtualenv or an outer pip
    3  install what is pinned by hash: requirements/build.txt, dev.txt, then demo.txt
       and compile the twins of the hot functions meanwhile, where a C compiler works
    4  install the project itself, editable
    5  make sure of a Java for Spark: the machine's, else requirements/java.txt
    6  write the stamp

A run that was cut short leaves a stamp without inputs, and the next run carries on from what is
there. A .venv whose directory was moved, or whose Python is gone, is made anew. Only step 3, and
step 5 on a machine without Java, use the network, and only for what is not yet there.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).resolve().parent.parent.parent
OLDEST_NODE = 18
TWINS_LOG = "twins.log"  # in .venv: what compiling the twins said
LAST_LINES = 40  # of an installer's output, kept for the case that it fails


class SetupFailed(Exception):
    """Setup cannot go on; the message says why and what to do next."""


@dataclass(frozen=True)
class Stamp:
    """What a finished setup was made for; ``inputs`` is empty while it is unfinished."""

    root: str
    inputs: str = ""
    java: str = ""

    @classmethod
    def read(cls, venv: Path) -> Stamp | None:
        try:
            return cls(**json.loads(cls.path(venv).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, venv: Path) -> None:
        unfinished = self.path(venv).with_suffix(".tmp")
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.replace(self.path(venv))

    @staticmethod
    def path(venv: Path) -> Path:
        return venv / "rocketpipe-setup.json"


# --- what decides whether anything is to be done -------------------------------------------------


def twin_sources(root: Path) -> list[Path]:
    return sorted((root / "src").glob("rocketpipe/**/_*.pyx"))


def inputs_of(root: Path, environ: Mapping[str, str]) -> str:
    """A digest of all that setup depends on, so that a change in any of it shows."""
    digest = hashlib.sha256()
    files = [root / "requirements" / f"{name}.txt" for name in ("build", "dev", "demo", "java")]
    files += [root / "setup.py", root / "src" / "rocketpipe" / "_version.py"]
    twins = twin_sources(root)
    shared = sorted((root / "src").glob("rocketpipe/**/_*.pxd"))
    for file in files + twins + shared:
        digest.update(f"{file.relative_to(root)} {file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    project = tomllib.loads((root / "pyproject.toml").read_text())
    # Only what installing reads: a new lint rule is no reason to install again.
    relevant = [project["build-system"], project["project"], project["tool"]["setuptools"]]
    compiler = wants_twins(root, environ)
    machine = [*sys.version_info[:2], sys.platform, platform.machine(), compiler]
    digest.update(json.dumps([relevant, machine], sort_keys=True).encode())
    return digest.hexdigest()


def wants_twins(root: Path, environ: Mapping[str, str]) -> bool:
    """Whether there are twins to compile, something to compile them, and nobody against it."""
    pure = environ.get("ROCKETPIPE_PURE") == "1"
    return bool(twin_sources(root)) and not pure and c_compiler(environ) is not None


def c_compiler(environ: Mapping[str, str]) -> str | None:
    names = [environ["CC"].split()[0]] if environ.get("CC", "").strip() else ["cc", "gcc", "clang"]
    return next(filter(None, (shutil.which(n, path=environ.get("PATH")) for n in names)), None)


def is_finished(root: Path, environ: Mapping[str, str]) -> bool:
    """Whether the last setup still holds; touches no network and starts no process."""
    venv = root / ".venv"
    stamp = Stamp.read(venv)
    return (
        stamp is not None
        and stamp.root == str(root)
        and stamp.inputs == inputs_of(root, environ)
        and os.access(venv / "bin" / "python", os.X_OK)
        and os.access(Path(stamp.java, "bin", "java"), os.X_OK)
    )


def why_unusable(root: Path) -> str | None:
    """Why there is no .venv to be carried on with, or None when there is."""
    venv = root / ".venv"
    if not (venv / "bin").exists():  # the directory itself is there: bytecode is kept in it
        return "there is none yet"
    stamp = Stamp.read(venv)
    if stamp is not None and stamp.root != str(root):
        return f"it was made for {stamp.root}"
    try:
        version = subprocess.run(
            [venv / "bin" / "python", "-c", "import sys; print(*sys.version_info[:2])"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        ).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return "its Python does not start"
    if version != [str(part) for part in sys.version_info[:2]]:
        return f"it holds Python {'.'.join(version)}"
    if not any(True for _ in installers(venv)):
        return "it was left unfinished"
    return None


# --- the virtual environment ---------------------------------------------------------------------


def create_venv(venv: Path) -> None:
    """Create an environment with whatever this machine has for it.

    Raises:
        SetupFailed: it has nothing; the message is the line that installs it.
    """
    for command in list(venv_commands(venv)):  # an old one goes only where a new one can come
        if venv.exists():
            shutil.rmtree(venv)
        if run_quietly(command):
            return
    version = ".".join(map(str, sys.version_info[:2]))
    raise SetupFailed(
        f"This Python {version} cannot make a virtual environment: its ensurepip is missing, and "
        "there is no uv, virtualenv or pip to do without. Install it with this line, then run "
        f"make again:\n\n    sudo apt-get install -y python{version}-venv\n"
    )


def venv_commands(venv: Path) -> Iterable[list[str]]:
    """The ways to make an environment, best first, of those that are there."""
    if has_module("ensurepip"):
        yield [sys.executable, "-m", "venv", str(venv)]
    if uv := shutil.which("uv"):
        yield [uv, "venv", "--quiet", "--python", sys.executable, str(venv)]
    if has_module("virtualenv"):
        yield [sys.executable, "-m", "virtualenv", "--quiet", str(venv)]
    if has_module("pip"):  # which then installs into it from outside
        yield [sys.executable, "-m", "venv", "--without-pip", str(venv)]


def has_module(name: str, python: str = sys.executable) -> bool:
    return run_quietly([python, "-c", f"import {name}"])


def run_quietly(command: list[str]) -> bool:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=clean_environment(os.environ),
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would send an installation elsewhere than into .venv."""
    astray = {"PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"}
    astray |= {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_HASHES"}
    kept = {name: value for name, value in environ.items() if name not in astray}
    kept.setdefault("PIP_DEFAULT_TIMEOUT", "60")
    return kept | {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


# --- installing ----------------------------------------------------------------------------------


def install(venv: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
    """Run ``pip install`` with these arguments, by the quickest installer that manages it.

    ``environ`` is added to the environment.

    Raises:
        SetupFailed: none did; the message names the cause and the next step.
    """
    output: list[str] = []
    for installer in installers(venv):
        status, output = run_showing_downloads([*installer, *arguments], environ or {})
        if status == 0:
            return
        say(f"{Path(installer[0]).name} could not install")
    print("\n".join(f"    {line}" for line in output), file=sys.stderr)
    raise SetupFailed(diagnosis("\n".join(output)))


def installers(venv: Path) -> Iterable[list[str]]:
    python = str(venv / "bin" / "python")
    if uv := shutil.which("uv"):
        yield [uv, "pip", "install", "--python", python]
    # Bytecode comes with the first import, as with uv: most of what is installed is never imported.
    quietly = ("install", "--progress-bar", "off", "--no-compile")
    if has_module("pip", python):
        yield [python, "-m", "pip", *quietly]
    elif has_module("pip"):
        yield [sys.executable, "-m", "pip", "--python", python, *quietly]


def forget_half_installed(venv: Path) -> None:
    """Let what an interrupted run left half unpacked be installed again.

    Installers take any package with metadata as installed. They end by writing its RECORD, which
    then lists the INSTALLER file of their own making; the RECORD that a wheel brings does not.
    """
    for metadata in venv.glob("lib/python*/site-packages/*.dist-info"):
        record = metadata / "RECORD"
        if not record.exists() or f"{metadata.name}/INSTALLER" not in record.read_text():
            shutil.rmtree(metadata)


def run_showing_downloads(command: list[str], environ: Mapping[str, str]) -> tuple[int, list[str]]:
    """Run an installer, print what takes it long, and keep its last lines."""
    last: deque[str] = deque(maxlen=LAST_LINES)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=clean_environment(os.environ) | dict(environ),
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last.append(line.rstrip())
            if progress := progress_in(line):
                say("  " + progress)
    return process.returncode, list(last)


def progress_in(line: str) -> str | None:
    """What an installer's line tells of progress: large downloads, builds, the unpacking of all."""
    if found := re.match(r"Installing collected packages: (.+)", line):
        count = found[1].count(",") + 1
        return f"Unpacking {count} package{'s' if count > 1 else ''}"
    size = re.search(r"Downloading \S+ \((\d+)(?:\.\d+)? ?(MB|MiB|GB|GiB)\)", line)
    large = size is not None and (size[2].startswith("G") or int(size[1]) >= 10)
    slow = large or re.match(r"\s*(Building wheel for|Building) \S", line)
    return line.strip() if slow else None


CAUSES = [
    (
        r"No space left on device|Disk quota exceeded",
        "The disk is full. Make room (about 2 GB), then run make again.",
    ),
    (
        r"DO NOT MATCH THE HASHES|Hash mismatch",
        "A download is not the file that is pinned here: something on the way changes files, or "
        "serves others. Nothing of it was installed. Try another network or package mirror.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|UnknownIssuer",
        "The package index shows a certificate that this machine does not trust. If a proxy sits "
        "in between, name its certificate in PIP_CERT (for uv: SSL_CERT_FILE) and run make again.",
    ),
    (
        r"Temporary failure in name resolution|Name or service not known|nodename nor servname"
        r"|Network is unreachable|Connection refused|timed out|Connection reset|ProxyError"
        r"|dns error|error sending request|Failed to fetch|NewConnectionError",
        "The package index cannot be reached. Check the network, or name a proxy or mirror in "
        "pip's own settings (PIP_PROXY, PIP_INDEX_URL), and run make again.",
    ),
    (
        r"No matching distribution found|no wheels with a matching|not compatible with",
        f"A pinned package has no build for this Python ({platform.python_version()}) on this "
        f"machine ({sys.platform}, {platform.machine()}). Try another Python of 3.11 or newer: "
        "make setup PYTHON=python3.12.",
    ),
]


def diagnosis(output: str) -> str:
    """What went wrong and what to do next, read from an installer's last lines."""
    for pattern, advice in CAUSES:
        if re.search(pattern, output):
            return advice
    return "Installing failed; the lines above say why. Mend that and run make again."


# --- the parts beside Python ---------------------------------------------------------------------

# Run by .venv's Python. The packages are stood in for, so that their __init__ files do not run:
# setup must work while the tree is being worked on, and broken.
FIND_JAVA = """
import os, sys, types
src = sys.argv[1]
for name in ("rocketpipe", "rocketpipe.pipeline"):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [os.path.join(src, *name.split("."))]
from rocketpipe.pipeline.java import JavaNotFound, ensure_java
try:
    print(ensure_java(dict(os.environ)))
except JavaNotFound as error:
    sys.exit(str(error))
"""


def ensure_java(root: Path) -> str:
    """The home of a Java for Spark, installed into .venv where the machine has none.

    Raises:
        SetupFailed: the machine has none and PyPI none for it.
    """
    command = [str(root / ".venv" / "bin" / "python"), "-c", FIND_JAVA, str(root / "src")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        say("no Java 17 or newer on this machine: installing one into .venv")
        try:
            install(root / ".venv", "--require-hashes", "-r", "requirements/java.txt")
        except SetupFailed as error:
            raise SetupFailed(f"{found.stderr.strip()}\n{error}") from None
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SetupFailed(found.stderr.strip())
    return found.stdout.strip()


def ensure_node(root: Path, environ: Mapping[str, str]) -> str:
    """A Node.js for other people's clients, installed into .venv where the machine has none."""
    ours = root / ".venv" / "bin" / "node"
    for node in (shutil.which("node", path=environ.get("PATH")), str(ours)):
        if node and (node_version(node) or 0) >= OLDEST_NODE:
            return node
    say(f"no Node.js {OLDEST_NODE} or newer on this machine: installing one into .venv")
    install(root / ".venv", "--require-hashes", "-r", "requirements/node.txt")
    return str(ours)


def node_version(node: str) -> int | None:
    try:
        output = subprocess.run(
            [node, "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.match(r"v(\d+)\.", output)
    return int(found[1]) if found else None


@contextmanager
def compiling(root: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Compile the twins while the block runs, and be done when it ends; TWINS_LOG says how it went.

    Whether they can be compiled is seen afterwards, by what is there.
    """
    # A twin built from older source must not outlive a build that fails or is not wanted.
    for outdated in (root / "src").glob("rocketpipe/**/_*.so"):
        outdated.unlink()
    if not wants_twins(root, environ):
        yield
        return
    command = [str(root / ".venv" / "bin" / "python"), "setup.py", "build_ext", "--inplace"]
    with (
        # So that what an earlier build left is not taken for this one's.
        tempfile.TemporaryDirectory(prefix="rocketpipe-twins-") as scratch,
        (root / ".venv" / TWINS_LOG).open("wb") as log,
        subprocess.Popen(
            [*command, f"--build-lib={scratch}/lib", f"--build-temp={scratch}/temp"],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=clean_environment(environ),
        ) as process,
    ):
        try:
            yield
        except BaseException:
            process.terminate()
            raise


def install_project(root: Path) -> None:
    """Install the project as it stands in the tree, with the twins that were compiled there."""
    without_twins = {"ROCKETPIPE_PURE": "1"}
    arguments = ("--no-build-isolation", "--no-deps", "--editable", ".")
    install(root / ".venv", *arguments, environ=without_twins)
    if sources := twin_sources(root):
        built = [source for source in sources if any(source.parent.glob(f"{source.stem}.*.so"))]
        say(
            f"hot functions: {len(built)} of {len(sources)} modules compiled"
            + ("" if built else " (no working C compiler, or ROCKETPIPE_PURE=1): Python runs them")
        )


# --- the whole -----------------------------------------------------------------------------------


def say(line: str) -> None:
    print(f"setup: {line}", flush=True)


def set_up(root: Path) -> None:
    """Bring .venv to what the tree asks for, doing only what is missing."""
    venv = root / ".venv"
    if is_finished(root, os.environ):
        say(".venv is up to date")
        return
    inputs = inputs_of(root, os.environ)
    reason = why_unusable(root)
    if reason is not None:
        say(f"[1/5] making .venv with Python {platform.python_version()}: {reason}")
        create_venv(venv)
    Stamp(root=str(root)).write(venv)
    forget_half_installed(venv)
    say("[2/5] installing what builds the rest")
    install(venv, "--require-hashes", "-r", "requirements/build.txt")
    say("[3/5] installing what is pinned (the first time about 600 MB, most of it Spark)")
    # Without isolation, so that what has no wheel is built by the pinned setuptools too.
    pinned = ("--require-hashes", "--no-build-isolation", "-r", "requirements/dev.txt")
    with compiling(root, os.environ):
        install(venv, *pinned)
        # Its table is all that is wanted of it, not what its module would import.
        install(venv, *pinned[:2], "--no-deps", "-r", "requirements/demo.txt")
    say("[4/5] installing the project")
    install_project(root)
    say("[5/5] looking for a Java for Spark")
    java = ensure_java(root)
    Stamp(root=str(root), inputs=inputs, java=java).write(venv)
    say(f"ready; Java for Spark is {java}")


def outside_of(venv: Path) -> None:
    """Where .venv's own Python runs this, go on with the one behind it: .venv may have to go."""
    if Path(sys.prefix).resolve() == venv.resolve():
        behind = str(Path(sys.executable).resolve())
        os.execv(behind, [behind, *sys.argv])


def take_turns(lock: BinaryIO) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another setup of this tree to finish")
        fcntl.flock(lock, fcntl.LOCK_EX)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make .venv, or see that it is up to date.")
    parser.add_argument("--node", action="store_true", help="make sure of a Node.js too")
    wanted = parser.parse_args()
    outside_of(ROOT / ".venv")
    with Path(__file__).open("rb") as lock:  # two makes at once take turns
        try:
            take_turns(lock)
            set_up(ROOT)
            if wanted.node:
                say(f"Node.js: {ensure_node(ROOT, os.environ)}")
        except SetupFailed as error:
            print(f"\nsetup: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\nsetup: interrupted; run make again to carry on", file=sys.stderr)
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
