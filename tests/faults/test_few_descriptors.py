"""A store in a process that has no file descriptor left: it waits, and goes on when there is one.

Each runs in a process of its own, as the limit is one of the process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 64

BEGIN = """
import os, resource, sys
from pathlib import Path
from rocketpipe.clock import SystemClock
from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore, Put, StoreState

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))

def opened():
    config = StoreConfig.embedded(
        Path(sys.argv[1]), segment_bytes=16384, queue_file_bytes=200, index_entries=400
    )
    return MessageStore.open(
        config, disk=Disk(), clock=SystemClock(), store_host=HOST, threads=False
    )

def put(number):
    return Put(
        topic=f"t{{number % 40}}", queue_id=0, body=b"%d" % number + bytes(300),
        properties=b"KEYS\\x01k%d\\x02" % number, flag=0, sys_flag=0, born_ms=1, born_host=HOST,
    )

def count(store):
    found = 0
    for topic, queue_id in store.queues():
        at = store.min_offset(topic, queue_id)
        while at < store.max_offset(topic, queue_id):
            result = store.read(topic, queue_id, at, max_count=32)
            found, at = found + result.count, result.next_offset
    return found

def take_all():
    taken = []
    while True:
        try:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            return taken
"""


def run(tmp_path: Path, script: str) -> None:
    code = BEGIN.format(limit=LIMIT) + script
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_more_files_than_descriptors_are_no_trouble(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
store = opened()
for number in range(4000):
    store.append([[put(number)]])
    if number % 50 == 0:
        # Here, and not on a thread, which may be late: what is not synced stays open.
        store.flush()
        store.dispatch()
store.dispatch()
assert len(store.commit_log.run.segments) > 80
assert count(store) == 4000
assert store.state is StoreState.RUNNING, store.health.reason
store.close()
store = opened()
assert count(store) == 4000
store.close()
""",
    )


@pytest.mark.parametrize("spare", [0, 1])
def test_a_store_that_can_open_nothing_refuses_for_now_and_has_not_failed(
    tmp_path: Path, spare: int
) -> None:
    run(
        tmp_path,
        f"""
store = opened()
kept = 0
for number in range(500):
    store.append([[put(number)]])
    kept += 1
store.dispatch()
taken = take_all()
for descriptor in taken[:{spare}]:
    os.close(descriptor)
taken = taken[{spare}:]
refused = 0
for number in range(500, 1500):
    try:
        store.append([[put(number)]])
        kept += 1
    except StoreError as error:
        assert error.retryable, error
        assert "ulimit" in str(error), error
        refused += 1
    try:
        store.dispatch()
        # What is open is closed for what is needed, and taken by somebody else.
        taken += take_all()
    except StoreError as error:
        assert store.state is not StoreState.FAILED, error
assert refused
assert store.state is StoreState.FULL, store.state
for descriptor in taken:
    os.close(descriptor)
for number in range(1500, 1600):
    store.append([[put(number)]])
    kept += 1
store.dispatch()
assert store.state is StoreState.RUNNING, store.health.reason
assert count(store) == kept, (count(store), kept)
store.close()
store = opened()
assert count(store) == kept
store.close()
""",
    )
