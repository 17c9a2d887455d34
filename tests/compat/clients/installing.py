"""Other people's clients, fetched once and kept in the user's cache; later runs need no network.

What is fetched is pinned: npm's packages by ``node/package-lock.json``, PyPI's by
``requirements/clients.txt``, Go's by ``go/go.sum``, Maven's by version. Where something is neither
kept nor to be had, the test is skipped and says why.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from rocketpipe.pipeline.java import find_java

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
FETCH_TIMEOUT_S = 240


def node() -> Path:
    """The machine's Node.js, else the one that ``make node`` puts into .venv."""
    bootstrap = load_bootstrap()
    try:
        return Path(bootstrap.ensure_node(ROOT, os.environ))
    except bootstrap.SetupFailed as error:
        pytest.skip(f"no Node.js on this machine, and none to be had: {cause(str(error))}")


def load_bootstrap() -> ModuleType:
    name = "rocketpipe_bootstrap"
    if name not in sys.modules:
        path = ROOT / "tools" / "packaging" / "bootstrap.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look there
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def node_packages(node: Path) -> Path:
    """A directory with the programs for npm's clients and the packages that they need."""
    sources = sorted((HERE / "node").iterdir())

    def fetch(into: Path) -> None:
        for source in sources:
            shutil.copy(source, into / source.name)
        npm = node.parent / "npm"
        command = [str(npm if npm.exists() else "npm"), "ci", "--ignore-scripts", "--no-audit"]
        path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        run([*command, "--no-fund", "--fetch-retries=1"], into, "npm", {**os.environ, "PATH": path})

    return kept("npm", sources, fetch)


def python_packages() -> Path:
    """A directory with PyPI's client, which is one for Linux on x86-64 only."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("PyPI has this client for Linux on x86-64 only")
    return pinned_packages("clients", "pypi")


def pinned_packages(requirements: str, name: str) -> Path:
    """A directory with packages of PyPI's, and nothing of what they depend on."""
    pinned = ROOT / "requirements" / f"{requirements}.txt"

    def fetch(into: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        uv = ["uv", "pip", "install", "--quiet", "--python", sys.executable]
        has_pip = subprocess.run([*pip[:3], "--version"], capture_output=True, check=False)
        installer = pip if has_pip.returncode == 0 else uv
        arguments = ["--target", str(into), "--no-deps", "--require-hashes", "-r", str(pinned)]
        run([*installer, *arguments], into, "PyPI", os.environ)

    return kept(name, [pinned], fetch)


def java_client(version: str) -> tuple[Path, Path]:
    """A Java that compiles, and a directory with the jars of that client."""
    return java_program("Client", "rocketmq-client", version)


def java_tools(version: str) -> tuple[Path, Path]:
    """The same, with the jars of ``mqadmin``."""
    return java_program("Admin", "rocketmq-tools", version)


def java_program(name: str, artifact: str, version: str) -> tuple[Path, Path]:
    found = find_java(os.environ, rejected=[])
    if found is None or not (found.home / "bin" / "javac").exists():
        pytest.skip("no Java with a compiler for the program around Java's client")
    maven = shutil.which("mvn")
    java = found.home
    source = HERE / "java" / f"{name}.java"

    def fetch(into: Path) -> None:
        if maven is None:
            pytest.skip("no mvn to fetch Java's client with")
        artifacts = [
            ("org.apache.rocketmq", artifact, version),
            ("com.google.code.gson", "gson", "2.9.0"),
        ]
        # What signs is the client's own since then; the one for gRPC never had it, and does not
        # bear the messages that would come with it.
        if name == "Client" and _version(version) < (5, 3, 3):
            artifacts.append(("org.apache.rocketmq", "rocketmq-acl", version))
        wanted = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{number}</version></dependency>"
            for group, artifact, number in artifacts
        )
        (into / "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion>"
            "<groupId>compat</groupId><artifactId>compat</artifactId><version>1</version>"
            f"<dependencies>{wanted}</dependencies></project>"
        )
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        command = [maven, "-q", "-B", copy, "-DincludeScope=runtime", "-DoutputDirectory=jars"]
        run(command, into, "Maven", {**os.environ, "JAVA_HOME": str(java)})
        javac = [str(java / "bin" / "javac"), "-cp", f"{into}/jars/*", "-d", str(into / "classes")]
        subprocess.run([*javac, "-Xlint:-deprecation", "-nowarn", source], check=True)

    kind = "java" if name == "Client" else f"java-{name.lower()}"
    return java / "bin" / "java", kept(f"{kind}-{version}", [source], fetch)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def go_program(folder: str = "go") -> Path:
    """The program around one of Go's clients, built."""
    go = shutil.which("go")
    sources = sorted(path for path in (HERE / folder).iterdir() if path.is_file())

    def fetch(into: Path) -> None:
        if go is None:
            pytest.skip("no Go to build the program around Go's client with")
        for source in sources:
            shutil.copy(source, into / source.name)
        run([go, "mod", "download"], into, "Go's proxy", os.environ)
        subprocess.run([go, "build", "-o", "client", "."], cwd=into, check=True)

    return kept(folder, sources, fetch) / "client"


def kept(kind: str, inputs: Sequence[Path], fetch: Callable[[Path], None]) -> Path:
    """The directory that ``fetch`` filled for exactly these inputs, now or in an earlier run."""
    digest = hashlib.sha256()
    for source in inputs:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = home / "rocketpipe-tests"
    place = cache / f"client-{kind}-{digest.hexdigest()[:16]}"
    if place.is_dir():
        return place
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        fetch(made)
        try:
            made.rename(place)
        except OSError:
            if not place.is_dir():  # or another run was quicker
                raise
    return place


def run(command: Sequence[str], cwd: Path, source: str, environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip(f"no {command[0]} to fetch this client with")
    except subprocess.TimeoutExpired:
        pytest.skip(f"{source} did not deliver this client in {FETCH_TIMEOUT_S} s")
    said = done.stderr + done.stdout
    # Something else than what is pinned is no reason to go on without.
    assert not re.search("EINTEGRITY|HASHES|checksum mismatch", said), said
    if done.returncode != 0:
        pytest.skip(f"{source} cannot deliver this client: {cause(said)}")


def cause(text: str) -> str:
    """The first line that tells of an error, which names it; later ones name log files."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["it says nothing"])[0]
