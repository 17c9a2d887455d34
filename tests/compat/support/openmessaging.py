"""The OpenMessaging Benchmark with its RocketMQ driver, built from source: Maven has no release.

Its framework asks for the drivers of all brokers there are; of those only RocketMQ's is built.
``ROCKETPIPE_OMB`` names a checkout where GitHub cannot be reached.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.compat.clients.installing import kept, run

from rocketpipe.pipeline.java import find_java

SOURCE = "https://github.com/openmessaging/benchmark"
COMMIT = "85599891321cafa2fb7065a63f009b4bb5374288"
MODULES = ("driver-api", "driver-rocketmq", "benchmark-framework")
SKIPPED = ("license.skip", "spotless.check.skip", "spotbugs.skip", "checkstyle.skip", "jacoco.skip")


def benchmark(workload: Path, driver: str, output: Path) -> subprocess.CompletedProcess[str]:
    """Run a workload with the driver's own settings for a NameServer."""
    java = find_java(os.environ, rejected=[])
    if java is None or not (java.home / "bin" / "javac").exists():
        pytest.skip("no Java with a compiler for the OpenMessaging Benchmark")
    home = _built(java.home)
    settings = output.with_name("driver.yaml")
    shown = (home / "driver-rocketmq" / "rocketmq.yaml").read_text()
    settings.write_text(re.sub(r"namesrvAddr: .*", f"namesrvAddr: {driver}", shown))
    jars = ":".join([*map(str, sorted(home.glob("*/target/*.jar"))), f"{home}/jars/*"])
    command = [str(java.home / "bin" / "java"), "-Xmx512m", "-cp", jars]
    command += ["io.openmessaging.benchmark.Benchmark", "--drivers", str(settings)]
    return subprocess.run(
        [*command, "--output", str(output), str(workload)],
        cwd=output.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )


def _built(java: Path) -> Path:
    maven = shutil.which("mvn")

    def fetch(into: Path) -> None:
        if maven is None:
            pytest.skip("no mvn to build the OpenMessaging Benchmark with")
        _check_out(into)
        _leave_others_out(into)
        words = ["-q", "-B", "-DskipTests", *(f"-D{each}=true" for each in SKIPPED), "package"]
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        words += [*copy, f"-DoutputDirectory={into}/jars"]
        run([maven, *words], into, "Maven", {**os.environ, "JAVA_HOME": str(java)})

    return kept(f"openmessaging-{COMMIT[:8]}", [Path(__file__)], fetch)


def _check_out(into: Path) -> None:
    found = os.environ.get("ROCKETPIPE_OMB")
    if found:
        shutil.copytree(found, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
        return
    for words in (["init"], ["fetch", "--depth=1", SOURCE, COMMIT], ["checkout", "FETCH_HEAD"]):
        run(["git", *words, "--quiet"], into, "GitHub", os.environ)


def _leave_others_out(root: Path) -> None:
    """Drop the modules that are not built, and what depends on them."""
    whole = root / "pom.xml"
    whole.write_text(
        re.sub(
            r"<module>(.*?)</module>",
            lambda found: found[0] if found[1] in MODULES else "",
            whole.read_text(),
        )
    )
    framework = root / "benchmark-framework" / "pom.xml"
    framework.write_text(
        re.sub(
            r"<dependency>(?:(?!</dependency>).)*<artifactId>(driver-.*?)</artifactId>.*?</dependency>",
            lambda found: found[0] if found[1] in MODULES else "",
            framework.read_text(),
            flags=re.DOTALL,
        )
    )
