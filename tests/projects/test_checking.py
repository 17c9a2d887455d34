"""What is wrong with definitions, before Spark is asked. What it says is in test_running."""

from __future__ import annotations

import pytest

from rocketpipe.projects.checking import files_of, quick
from rocketpipe.projects.errors import BadSpec
from rocketpipe.projects.folder import Folder, find, read


def test_each_file_that_is_no_definition_is_a_line(shop: Folder) -> None:
    transformations = shop.root / "transformations"
    (transformations / "deep").mkdir()
    (transformations / "deep" / "bad.py").write_text("def f(:\n")
    (transformations / "notes.txt").write_text("x")
    (transformations / "latin.py").write_bytes(b"# \xe9\n")
    assert quick(shop) == [
        "transformations/deep/bad.py:1: invalid syntax",
        "transformations/latin.py: is not UTF-8",
        "transformations/notes.txt: definitions are .py and .sql files: move it elsewhere",
    ]


def test_a_path_that_sparks_catalogue_cannot_have_is_a_line(shop: Folder) -> None:
    moved = find(shop.root.rename(shop.root.with_name("a;b")))
    assert quick(moved) == [
        f"{moved.root}: Spark's catalogue can have no ';' in its path: rename it"
    ]


def test_a_spec_that_names_no_file_is_refused(shop: Folder) -> None:
    shop.spec.write_text("name: shop\nstorage: s\nlibraries: [{glob: {include: nowhere/**}}]\n")
    with pytest.raises(BadSpec, match="no file of definitions"):
        files_of(read(shop.spec))
