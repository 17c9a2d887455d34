"""What the sanitizers' run finds on a machine, and says aloud where it finds nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.packaging import sanitized


def a_gcc(directory: Path, answer: str) -> str:
    program = directory / "gcc"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    return str(program)


def test_the_library_is_where_the_compiler_says(tmp_path: Path) -> None:
    library = tmp_path / "libasan.so"
    library.touch()
    assert sanitized.find_library(a_gcc(tmp_path, str(library))) == library


def test_a_compiler_without_the_library_is_told(tmp_path: Path) -> None:
    with pytest.raises(sanitized.Unchecked, match=r"gcc has no libasan\.so"):
        sanitized.find_library(a_gcc(tmp_path, "libasan.so"))


def test_without_a_compiler_the_run_is_left_out_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sanitized.main() == 0
    assert capsys.readouterr().out == "sanitized: left out: there is no gcc on this machine\n"


def test_twins_that_are_not_built_fail_the_run(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "_hot.pyx").touch()
    (tmp_path / "setup.py").write_text("print('no headers')\n")
    with pytest.raises(sanitized.BuildFailed, match=r"_hot\.pyx[^$]*no headers"):
        sanitized.build(tmp_path, "gcc")
