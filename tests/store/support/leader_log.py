"""A leader's log of random groups, and a follower that takes it in."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.log.puts import Put
from rocketpipe.store.log.raw_groups import RawGroups
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import ROOT, message, open_store


def random_groups(seed: int, count: int) -> list[list[Put]]:
    """Groups of one to six messages of any size; some of the messages are in no queue."""
    chance = random.Random(seed)
    numbers = iter(range(seed * 10_000, seed * 10_000 + 6 * count))
    groups = []
    for _ in range(count):
        group = [message(next(numbers)) for _ in range(chance.choice((1, 1, 1, 2, 3, 6)))]
        if chance.random() < 0.1:
            group = [put._replace(sys_flag=put.sys_flag | 4) for put in group]
        groups.append(group)
    return groups


def leader(
    groups: Iterable[list[Put]], disk: SimDisk | None = None, **changes: object
) -> MessageStore:
    """A store that has written these groups, some of them at once, and dispatched them."""
    store = open_store(disk or SimDisk(), **changes)  # type: ignore[arg-type]
    waiting: list[list[Put]] = []
    for group in groups:
        waiting.append(group)
        if len(group) % 2:
            store.append(waiting)
            waiting = []
    if waiting:
        store.append(waiting)
    store.dispatch()
    return store


def log_bytes(store: MessageStore, start: int | None = None) -> bytes:
    """All of a log, or from an offset on, as a leader sends it."""
    at = store.first_offset if start is None else LogOffset(start)
    pieces = []
    while data := store.raw_at(at, 1 << 20):
        pieces.append(data)
        at = LogOffset(at + len(data))
    return b"".join(pieces)


def portions(data: bytes, chance: random.Random, most: int = 3000) -> Iterator[bytes]:
    """The same bytes as a connection may bring them."""
    at = 0
    while at < len(data):
        size = chance.choice((1, 7, 50, most))
        yield data[at : at + size]
        at += size


def groups_for(follower: MessageStore, **changes: object) -> RawGroups:
    """What goes on where a follower's log ends."""
    return RawGroups(
        follower.positions.written,
        follower.commit_log.segment_bytes,
        sealed_from=follower.commit_log.sealed_from,
        **changes,  # type: ignore[arg-type]
    )


def follow(follower: MessageStore, data: Iterable[bytes], **changes: object) -> None:
    """Take in what comes, and show it."""
    groups = groups_for(follower, **changes)
    for portion in data:
        piece = groups.add(portion)
        if piece is not None:
            follower.append_raw(piece)
            follower.positions.acknowledged = follower.positions.written
            follower.dispatch()


def files_of(disk: SimDisk, *rooms: str) -> dict[Path, bytes]:
    """What the files of some directories of a store hold."""
    return {
        path: disk.content(path)
        for path in disk.files()
        if path.relative_to(ROOT).parts[0] in rooms
    }
