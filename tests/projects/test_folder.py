"""The spec of a pipeline, and where everything of it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rocketpipe.projects.errors import BadSpec, NoPipeline
from rocketpipe.projects.folder import Folder, find, read


def test_a_pipeline_is_found_from_below_its_folder(shop: Folder) -> None:
    assert find(shop.root / "transformations").name == "shop"
    with pytest.raises(NoPipeline, match=r"no spark-pipeline.yml here or above.*pipeline init"):
        find(shop.root.parent)


def test_storage_is_below_the_folder_unless_it_is_an_address(shop: Folder) -> None:
    assert shop.storage == f"file://{shop.root / 'storage'}"
    spaced = replace(shop, storage="file:///srv/my%20shöp/a b")  # Spark takes it as it is
    assert spaced.local_storage == Path("/srv/my%20shöp/a b")
    assert shop.table_files("Orders") == shop.root / "storage/tables/shop.db/orders"
    below = shop.root / "storage/_checkpoints"
    checkpoints = shop.checkpoints
    assert checkpoints("orders", "orders", is_sink=False) == (
        below / "spark_catalog/shop/orders/orders"
    )
    assert checkpoints("out", "to_out", is_sink=True) == below / "out/to_out"
    shop.spec.write_text("name: shop\nstorage: s3a://lake/shop/\n")
    away = read(shop.spec)
    assert (away.storage, away.local_storage, away.table_files("t")) == (
        "s3a://lake/shop",
        None,
        None,
    )
    assert away.tables == "s3a://lake/shop/tables"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no fields"),
        ("name: [", "is no YAML"),
        ("name: shop\nstorage: x\ncolour: red\n", "field 'colour' is unknown"),
        ("storage: x\n", "name: a pipeline's name"),
        ("name: 'a b'\nstorage: x\n", "name: a pipeline's name"),
        ("name: shop\n", "storage: a directory or an address"),
        ("name: shop\nstorage: x\ndatabase: Bad-One\n", "database: a name has small letters"),
        ("name: shop\nstorage: x\nconfiguration: {a: 1}\n", "put numbers in quotes"),
        ("name: shop\nstorage: x\nlibraries: [transformations]\n", "libraries: write entries"),
    ],
)
def test_what_is_wrong_with_a_spec_is_told_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(text)
    with pytest.raises(BadSpec, match=r"spark-pipeline\.yml: ") as caught:
        find(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_specs_are_one_too_many(shop: Folder) -> None:
    (shop.root / "spark-pipeline.yaml").write_text("")
    with pytest.raises(BadSpec, match="remove one"):
        find(shop.root)
