"""The classes of Spark that the stages with Spark keep: made once, and no stage fails for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tools.packaging import spark_classes

from rocketpipe.pipeline.launch import prepare_alone


def test_what_this_java_and_this_spark_wrote_is_not_written_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "classes.jsa"
    file.write_bytes(b"kept")
    environ = dict(os.environ)
    prepare_alone(environ)
    file.with_suffix(".txt").write_text(spark_classes.maker(environ))
    assert spark_classes.main([str(file)]) == 0
    assert (file.read_bytes(), capsys.readouterr().out) == (b"kept", "")


def test_a_spark_that_does_not_start_is_told_once_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "classes.jsa"
    file.write_bytes(b"of another Java")
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'no Spark here' >&2\nexit 1\n")
    program.chmod(0o755)
    assert spark_classes.main([str(file)], python=str(program)) == 0
    assert capsys.readouterr().out.endswith("spark classes: not kept: no Spark here\n")
    assert not file.exists()
    assert spark_classes.main([str(file)], python=str(program)) == 0
    assert capsys.readouterr().out == ""
