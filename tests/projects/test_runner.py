"""The process of the definitions: what it makes of errors. Its runs are in test_running."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rocketpipe.projects.runner import _serve, told


def test_an_error_is_a_line_with_its_place_in_the_users_files(tmp_path: Path) -> None:
    file = tmp_path / "transformations" / "orders.py"
    file.parent.mkdir()
    file.write_text("\nspark = 1\nspark.readStream()\n")
    try:
        exec(compile(file.read_text(), str(file), "exec"), {})
    except AttributeError as error:
        text = told(error, tmp_path)
    assert text == (
        "transformations/orders.py:3: AttributeError: 'int' object has no attribute 'readStream'"
    )
    assert told(ValueError("one\ntwo"), tmp_path) == "ValueError: one"
    with pytest.raises(SyntaxError) as caught:
        compile("a b", str(file), "exec")
    assert told(caught.value, tmp_path).startswith("transformations/orders.py:1: SyntaxError")


def test_nothing_asked_is_nothing_done() -> None:
    assert _serve(io.StringIO(""), lambda event, **facts: None) == 0
