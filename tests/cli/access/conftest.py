"""One pair of guarded servers for all files here: each test has users of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.access.support.guarded import as_root, guarded

from rocketpipe.testing.servers import Servers


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with guarded(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    as_root(monkeypatch)


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    """A file with a secret of sixteen characters."""
    file = tmp_path / "secret.key"
    file.write_text("sixteen-letters!\n")
    return file
