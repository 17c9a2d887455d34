"""The checks of `make wheels` find what is wrong; that what we build is right is a scenario."""

from __future__ import annotations

import csv
import io
import shutil
import sys
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from tools.packaging import wheels
from tools.packaging.wheel_contents import (
    Unfit,
    check_pins,
    digest_of,
    look_into_sdist,
    look_into_wheel,
    names_in,
)

ROOT = Path(__file__).parent.parent
INFO = "rocketpipe-0.9.dist-info"

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package as small as can be, with this project's way of building."""
    root = tmp_path_factory.mktemp("wheels") / "tree"
    for name in ("rocketpipe/cli", "pyspark_rocketpipe", "pytest_rocketpipe"):
        (root / "src" / name).mkdir(parents=True)
        (root / "src" / name / "__init__.py").touch()
    (root / "src" / "rocketpipe" / "__init__.py").touch()
    (root / "src" / "rocketpipe" / "py.typed").touch()
    (root / "src" / "rocketpipe" / "_version.py").write_text('__version__ = "0.9"\n')
    (root / "tests").mkdir()
    (root / "tests" / "test_one.py").touch()
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root / name)
    (root / "CHANGELOG.md").touch()
    return root


@pytest.fixture(scope="module")
def sdist(tree: Path) -> Path:
    into = tree.parent / "dist"
    into.mkdir()
    return wheels.run_hook("build_sdist", tree, into, {"ROCKETPIPE_PURE": "1"})


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    return wheels.build_wheel(sdist, sdist.parent, sdist.parent.parent / "build", pure=True)


def test_what_this_project_builds_passes(tree: Path, sdist: Path, wheel: Path) -> None:
    look_into_sdist(sdist, tree)
    look_into_wheel(wheel, tree, foreign=[str(tree.parent)])
    assert not [name for name in names_in(sdist) if "test" in name and "pytest_" not in name]


def without_a_module(files: Files) -> None:
    del files["rocketpipe/cli/__init__.py"]


def with_a_source(files: Files) -> None:
    files["rocketpipe/record/_hot.pyx"] = b""


def with_a_test(files: Files) -> None:
    files["tests/test_one.py"] = b""


def with_a_path(files: Files) -> None:
    files["rocketpipe/__init__.py"] = b"HERE = '/built/here/src'\n"


def with_a_home(files: Files) -> None:
    files["rocketpipe/__init__.py"] = b"HERE = '/ho" + b"me/me/src'\n"


def without_a_dependency(files: Files) -> None:
    text = files[f"{INFO}/METADATA"]
    files[f"{INFO}/METADATA"] = text.replace(b"Requires-Dist: msgspec>=0.19\n", b"")


def of_another_version(files: Files) -> None:
    files[f"{INFO}/METADATA"] = files[f"{INFO}/METADATA"].replace(
        b"\nVersion: 0.9", b"\nVersion: 1"
    )


def with_another_tag(files: Files) -> None:
    files[f"{INFO}/WHEEL"] = files[f"{INFO}/WHEEL"].replace(b"py3-none-any", b"cp311-cp311-any")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (without_a_module, "without ['rocketpipe/cli/__init__.py']"),
        (with_a_source, "_hot.pyx'] that do not belong"),
        (with_a_test, "test_one.py'] that do not belong"),
        (with_a_path, "__init__.py names a path of the machine"),
        (with_a_home, "__init__.py names a path of the machine"),
        (without_a_dependency, "dependencies is"),
        (of_another_version, "version is 1"),
        (with_another_tag, "WHEEL says cp311-cp311-any"),
    ],
)
def test_a_wheel_that_is_not_right_is_refused(
    spoil: Callable[[Files], None], told: str, tree: Path, wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    spoil(files)
    del files[f"{INFO}/RECORD"]
    rows = [f"{name},{digest_of(content)},{len(content)}" for name, content in files.items()]
    files[f"{INFO}/RECORD"] = "\n".join([*rows, f"{INFO}/RECORD,,"]).encode()
    with zipfile.ZipFile(tmp_path / wheel.name, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    with pytest.raises(Unfit) as refused:
        look_into_wheel(tmp_path / wheel.name, tree, foreign=["/built/here"])
    assert told in str(refused.value)


def test_a_file_that_is_not_what_the_record_says_is_found(
    tree: Path, wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as opened, zipfile.ZipFile(tmp_path / wheel.name, "w") as spoilt:
        for name in opened.namelist():
            content = opened.read(name)
            spoilt.writestr(name, content + b"\n" if name == "rocketpipe/__init__.py" else content)
    with pytest.raises(Unfit, match=r"rocketpipe/__init__\.py is not what RECORD says"):
        look_into_wheel(tmp_path / wheel.name, tree)


def test_a_wheel_for_another_machine_is_refused(tree: Path, wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / wheel.name.replace("py3-none-any", "cp311-cp311-other_machine")
    shutil.copy(wheel, other)
    with pytest.raises(Unfit, match="something else than this machine"):
        look_into_wheel(other, tree)


def test_what_extras_ask_for_is_what_is_pinned(tmp_path: Path) -> None:
    check_pins(ROOT)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    text = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(text.replace('"lz4>=', '"lzfour>='))
    with pytest.raises(Unfit, match=r"extra 'compression': lzfour"):
        check_pins(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text.replace('"uvloop>=0.21"', '"uvloop>=99"'))
    with pytest.raises(Unfit, match=r"extra 'fast': uvloop>=99"):
        check_pins(tmp_path)


def test_what_is_installed_is_packed_as_it_was(tmp_path: Path) -> None:
    wheels.pack_dependencies(["pytest"], tmp_path)
    packed = {path.name.partition("-")[0] for path in tmp_path.iterdir()}
    assert {"pytest", "pluggy", "iniconfig", "packaging"} <= packed
    (pluggy,) = tmp_path.glob("pluggy-*.whl")
    version = metadata.version("pluggy")
    with zipfile.ZipFile(pluggy) as opened:
        record = opened.read(f"pluggy-{version}.dist-info/RECORD").decode()
        names = {row[0] for row in csv.reader(io.StringIO(record))}
        assert names == set(opened.namelist())
    with pytest.raises(Unfit, match="no-such-distribution is not in"):
        wheels.pack_dependencies(["no-such-distribution"], tmp_path)


def test_a_build_that_fails_is_told_with_its_output(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 1\n")
    with pytest.raises(Unfit, match=r"build_sdist failed:\n[^$]*name"):
        wheels.run_hook("build_sdist", tmp_path, tmp_path)


def test_what_does_not_work_where_it_is_installed_is_told(tmp_path: Path) -> None:
    python = wheels.empty_environment(tmp_path / "environment")
    with pytest.raises(Unfit, match=r"No matching distribution|no-such-thing"):
        wheels.install(python, "no-such-thing")
    with pytest.raises(Unfit, match="does not work"):
        wheels.use(python, tmp_path / "use", "pure")


def test_other_pythons_are_none_of_this_version() -> None:
    mine = f"python3.{sys.version_info.minor}"
    assert mine not in {Path(program).name for program in wheels.other_pythons()}
