"""Where a table is to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.tables.destination import destination


def test_a_directory_has_all_of_its_table(tmp_path: Path) -> None:
    directory, asked = destination(tmp_path, "orders", {"format": None, "state": None})
    assert (directory.root, asked) == (tmp_path, {})
    with pytest.raises(ConfigError, match="is for --to postgresql"):
        destination(tmp_path, "orders", {"state": "x"})
    with pytest.raises(ConfigError, match="postgres needs --to"):
        destination(tmp_path, "orders", {"format": "postgres"})
    with pytest.raises(ConfigError, match="is no directory"):
        destination("s3://lake/orders", "orders", {})


def test_a_database_has_a_directory_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    to = "postgresql://me@db/shop"
    directory, asked = destination(to, "orders", {"password_file": "secret"})
    assert directory.root == tmp_path / "orders.follow"
    assert asked == {
        "format": "postgres",
        "database": to,
        "table": "orders",
        "password_file": str(tmp_path / "secret"),
    }
    directory, asked = destination("postgres://db/shop", None, {"state": tmp_path / "kept"})
    assert directory.root == tmp_path / "kept"
    assert "table" not in asked
    assert destination(to, "orders", {"table": "sales.all"})[0].root.name == "sales.all.follow"
    with pytest.raises(ConfigError, match="name the topic to follow"):
        destination(to, None, {})
    with pytest.raises(ConfigError, match="--to names a PostgreSQL"):
        destination(to, "orders", {"format": "delta"})
