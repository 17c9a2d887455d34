"""A new pipeline's folder."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rocketpipe.projects import checking, starting
from rocketpipe.projects.errors import PipelineError
from rocketpipe.projects.folder import find


def test_the_folder_that_is_made_is_a_pipeline(tmp_path: Path) -> None:
    root = starting.make("my-Shop", tmp_path)
    made = find(root)
    assert (made.name, made.database) == ("my-Shop", "my_shop")
    assert [file.name for file in checking.files_of(made)] == ["cities.sql", "orders.py"]
    assert checking.quick(made) == []
    ast.parse((root / "tests" / "test_pipeline.py").read_text())


@pytest.mark.parametrize("name", ["", "a b", "../x", "1st", "x" * 65])
def test_a_name_that_is_none_makes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match="is no name for a pipeline"):
        starting.make(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine").touch()
    with pytest.raises(PipelineError, match="is there already"):
        starting.make("shop", tmp_path)
    assert [file.name for file in (tmp_path / "shop").iterdir()] == ["mine"]
