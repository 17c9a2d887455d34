"""How pytest finds the test kit: a fixture ``rocketpipe``, with a cluster of each test's own.

Every run of pytest on a machine that has the package loads this file, used or not. So it stands
outside of the package, which takes a moment to import, and imports that when a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rocketpipe.testing import Kit


@pytest.fixture
def rocketpipe(tmp_path: Path) -> Iterator[Kit]:
    """A NameServer and a broker inside this process, for one test; see ``rocketpipe.testing``."""
    from rocketpipe.testing import kit

    with kit(tmp_path / "rocketpipe") as servers:
        yield servers
