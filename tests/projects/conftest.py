"""A pipeline's folder for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.projects import starting
from rocketpipe.projects.folder import Folder, find


@pytest.fixture
def shop(tmp_path: Path) -> Folder:
    """What ``rocketpipe pipeline init shop`` makes, where names are as people give them."""
    return find(starting.make("shop", tmp_path / "my wörk"))
