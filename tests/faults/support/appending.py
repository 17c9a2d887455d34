"""A program that appends to a store until it is killed, and says on its standard output what became
of each group. Its parent holds the store to that.

    python appending.py ROOT ASYNC|SYNC FIRST_NUMBER SEGMENT_BYTES [GROUPS]

In the environment APPENDING_MUTANT plants a mistake in the store that the parent has to notice:
``late`` keeps what was acknowledged in memory until the next append, ``retry`` syncs again after a
failed sync.

With a count of groups each one waits for the fate of the one before it, and the store is closed.

    ready                                        the store is open
    send NUMBER COUNT                            a group is about to be appended
    ack NUMBER COUNT LOG_OFFSET SIZE QUEUE_OFFSET …   it is acknowledged; three numbers a message
    refused NUMBER COUNT ERROR                   it is not, and why
    read COUNT                                   so many messages can still be read
    close ERROR                                  it could not be closed in good order
"""

from __future__ import annotations

import os
import random
import sys
import threading
from pathlib import Path

from rocketpipe.clock import SystemClock
from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.log.commit_log import Chunk, CommitLog
from rocketpipe.store.log.puts import Appended
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.small_store import HOST, TOPICS, message


def say(*words: object) -> None:
    # One write, so that a line is told whole or, by a process killed before it, not at all.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(root: str, mode: str, first: str, segment_bytes: str, groups: str = "0") -> None:
    flush = FlushMode[mode]
    mutant = os.environ.get("APPENDING_MUTANT", "")
    if mutant:
        plant(mutant)
    config = StoreConfig.embedded(
        Path(root), flush=flush, segment_bytes=int(segment_bytes), queue_file_bytes=2000
    )
    store = MessageStore.open(config, disk=Disk(), clock=SystemClock(), store_host=HOST)
    say("ready")
    chance = random.Random(first)
    number = int(first)
    for _ in range(int(groups) or sys.maxsize):
        count = chance.choice((1, 1, 2, 5))
        puts = [message(each) for each in range(number, number + count)]
        say("send", number, count)
        told = append(store, flush, puts, number)
        if int(groups):
            told.wait()
        number += count
        if mutant != "late":  # what it has in memory could not be read
            store.dispatch()
    found = 0
    for topic in TOPICS:
        for queue_id in range(2):
            at, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
            while at < end:
                result = store.read(topic, queue_id, at, max_count=32)
                found += result.count
                at = result.next_offset
    say("read", found)
    try:
        store.close()
    except StoreError as error:
        say("close", type(error).__name__)


def plant(mutant: str) -> None:
    """Have the store make a mistake."""
    append_once, sync_once = CommitLog.append, CommitLog.sync
    kept: list[Chunk] = []

    def append_late(log: CommitLog, chunks: list[Chunk]) -> None:
        append_once(log, kept)
        kept[:] = chunks

    def sync_again(log: CommitLog, start: int, end: int) -> None:
        try:
            sync_once(log, start, end)
        except DiskError:
            sync_once(log, start, end)

    if mutant == "late":
        CommitLog.append = append_late
    else:
        assert mutant == "retry"
        CommitLog.sync = sync_again


def append(store: MessageStore, flush: FlushMode, puts: list, number: int) -> threading.Event:
    """Append a group, and give what is set once its fate was told."""
    known = threading.Event()

    def told(placed: list[Appended], error: StoreError | None) -> None:
        if error is not None:
            say("refused", number, len(puts), type(error).__name__)
        else:
            places = [(place.log_offset, place.size, place.queue_offset) for place in placed]
            say("ack", number, len(puts), *(value for place in places for value in place))
        known.set()

    try:
        [placed] = store.append([puts])
    except StoreError as error:
        told([], error)
        return known
    if flush is FlushMode.ASYNC:
        told(placed, None)
    else:
        end = LogOffset(placed[-1].log_offset + placed[-1].size)
        store.when_durable(end, lambda error: told(placed, error))
    return known


if __name__ == "__main__":
    main(*sys.argv[1:])
