"""What is handed out is built, installed where nothing else is, and used: part of `make wheels`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.packaging import wheels
from tools.packaging.wheel_contents import check_pins, look_into_sdist, look_into_wheel, twins

pytestmark = pytest.mark.scenario


def test_the_pure_wheel_works_where_there_is_nothing_else(tmp_path: Path) -> None:
    built = wheels.build(tmp_path / "dist", tmp_path / "build", compiled=False)
    check_pins(built.tree)
    look_into_sdist(built.sdist, built.tree)
    look_into_wheel(built.pure, built.tree, foreign=[str(tmp_path)])
    assert built.pure.name.endswith("-py3-none-any.whl")
    wheels.pack_dependencies(["msgspec", "uvloop", "pytest"], tmp_path / "house")
    said = wheels.install_and_use(built.pure, tmp_path / "house", tmp_path / "installed")
    assert said.startswith("pure, ")


def test_the_compiled_wheel_needs_no_compiler_where_it_is_installed(tmp_path: Path) -> None:
    if not twins(wheels.ROOT):
        pytest.skip("there are no compiled twins")
    built = wheels.build(tmp_path / "dist", tmp_path / "build", twice=False)
    if built.compiled is None:
        pytest.skip("no C compiler works here")
    look_into_wheel(built.compiled, built.tree, foreign=[str(tmp_path)])
    wheels.pack_dependencies(
        ["msgspec", "lz4", "zstandard", "uvloop", "pytest"], tmp_path / "house"
    )
    said = wheels.install_and_use(
        built.compiled, tmp_path / "house", tmp_path / "installed", "[compression,fast]"
    )
    assert said.startswith("compiled, ")
