"""One pair of servers for all files here: each has topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketpipe.testing.servers import Servers, serving


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("servers")) as running:
        yield running
