"""Closed stores whose records of several queues lie among each other, in several segments."""

from __future__ import annotations

from pathlib import Path

from rocketpipe.store.config import FlushMode
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.small_store import HOST, StepClock, put, small_store


def spread_store(root: Path, messages: int, queues: int) -> Path:
    """Write a store of numbers, to each queue in its turn."""
    config = small_store(root, FlushMode.ASYNC)
    store = MessageStore.open(
        config, disk=Disk(), clock=StepClock(), store_host=HOST, threads=False
    )
    for number in range(messages):
        store.append([[put(b"%d" % number, queue_id=number % queues)]])
    store.dispatch()
    store.close()
    return root
