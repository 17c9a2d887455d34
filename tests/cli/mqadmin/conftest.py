"""One pair of servers for all files here: each test has topics and groups of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from tests.cli.access.support.guarded import guarded

from rocketpipe.testing.servers import Servers, serving

MakeTopic = Callable[..., str]

_numbers = count(1)


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture(scope="package")
def guarded_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Others, that ask who comes."""
    with guarded(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture
def make_topic(command: Callable[..., str]) -> MakeTopic:
    """``make_topic(queues=2)``: a topic that no test made before, whichever ran here."""

    def make(*, queues: int) -> str:
        name = f"topic-{next(_numbers)}"
        command("topic", "create", name, "--queues", str(queues))
        return name

    return make
