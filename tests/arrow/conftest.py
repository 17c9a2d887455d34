"""Servers and stores for the tests of topics as Arrow."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipeline.conftest import send, servers, store_path

from rocketpipe.store.config import FlushMode
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.small_store import HOST, StepClock, put, small_store

__all__ = ["send", "servers", "store_path"]


@pytest.fixture
def closed_store(tmp_path: Path) -> Path:
    """A store of topic ``plain``: 120 messages of JSON in two queues, in several segments."""
    config = small_store(tmp_path / "closed", FlushMode.ASYNC)
    store = MessageStore.open(
        config, disk=Disk(), clock=StepClock(), store_host=HOST, threads=False
    )
    for number in range(120):
        properties = b"TAGS\x01%s\x02KEYS\x01k%d\x02" % (
            b"even" if number % 4 < 2 else b"odd",
            number,
        )
        store.append([[put(b'{"n": %d}' % number, queue_id=number % 2, properties=properties)]])
    store.dispatch()
    store.close()
    return tmp_path / "closed"
