"""Settings that a NameServer keeps for others, by namespace and key.

They are one JSON file, which RocketMQ's NameServer reads and writes too:

    {"configTable":{"ORDER_TOPIC_CONFIG":{"topic":"broker-a:4"}}}

A change is on disk before it shows, and before it is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from rocketpipe.errors import RocketPipeError
from rocketpipe.model.body import Body
from rocketpipe.namesrv.config import LiveSettings
from rocketpipe.protocol import fastjson
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.store.files.snapshot import MAX_SNAPSHOT_BYTES, Snapshot

log = logging.getLogger(__name__)

_changes = LogBudget(lines=200)


class KeyValuesFull(RocketPipeError):
    """One more value is more than a NameServer keeps."""


class _File(Body, frozen=True, kw_only=True):
    namespaces: dict[str, dict[str, str]] = msgspec.field(name="configTable", default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeyValueTable:
    """Every value at one moment, and how much that is."""

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    count: int = 0
    total_bytes: int = 0

    @classmethod
    def of(cls, namespaces: Mapping[str, Mapping[str, str]]) -> KeyValueTable:
        """A table of these values, counted."""
        sizes = [
            _size(name, key, value)
            for name, values in namespaces.items()
            for key, value in values.items()
        ]
        return cls(namespaces, len(sizes), sum(sizes))

    def get(self, namespace: str, key: str) -> str | None:
        """One value, if it is there."""
        return self.namespaces.get(namespace, {}).get(key)

    def having(self, namespace: str, key: str, value: str) -> KeyValueTable:
        """The table with this value in the place of the last one."""
        without = self.lacking(namespace, key)
        values = {**self.namespaces.get(namespace, {}), key: value}
        return KeyValueTable(
            {**self.namespaces, namespace: values},
            without.count + 1,
            without.total_bytes + _size(namespace, key, value),
        )

    def lacking(self, namespace: str, key: str) -> KeyValueTable:
        """The table without this value; a namespace that was used stays, as RocketMQ's does."""
        value = self.get(namespace, key)
        if value is None:
            return self
        values = {name: kept for name, kept in self.namespaces[namespace].items() if name != key}
        return KeyValueTable(
            {**self.namespaces, namespace: values},
            self.count - 1,
            self.total_bytes - _size(namespace, key, value),
        )


class KeyValueStore:
    """The table in force, and its file if it has one."""

    def __init__(self, settings: LiveSettings, snapshot: Snapshot | None = None) -> None:
        """Read what was kept.

        Raises:
            SnapshotDamaged: If neither the file nor the version before it can be read.
            DiskError: If the disk refuses.
        """
        self._settings = settings
        self._snapshot = snapshot
        self._one_at_a_time = asyncio.Lock()
        self._changes: set[asyncio.Task[None]] = set()
        kept = snapshot.load(_parsed) if snapshot is not None else None
        self._table = KeyValueTable.of(kept.namespaces if kept is not None else {})

    def get(self, namespace: str, key: str) -> str | None:
        """One value, if it is kept."""
        return self._table.get(namespace, key)

    def all(self, namespace: str) -> Mapping[str, str] | None:
        """Every value of a namespace; None for one that was never used."""
        return self._table.namespaces.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Keep a value; it is on disk when this returns.

        Raises:
            KeyValuesFull: If there would be more, or more bytes, than are kept.
            DiskError: If it could not be written; the last value still counts.
        """
        await self._change(lambda table: self._with_room(table.having(namespace, key, value)))
        _log_change("put", namespace, key)

    async def delete(self, namespace: str, key: str) -> None:
        """Let go of a value, on disk too when this returns.

        Raises:
            DiskError: If that could not be written; the value is still there.
        """
        if self.get(namespace, key) is not None:
            await self._change(lambda table: table.lacking(namespace, key))
            _log_change("deleted", namespace, key)

    async def settle(self) -> None:
        """Wait for the changes that are being written."""
        if self._changes:
            await asyncio.wait(self._changes)

    async def _change(self, change: Callable[[KeyValueTable], KeyValueTable]) -> None:
        # Who asked may leave meanwhile: what was begun is done in full all the same.
        task = asyncio.create_task(self._apply(change), name="key-value change")
        self._changes.add(task)
        task.add_done_callback(self._done)
        await asyncio.shield(task)

    async def _apply(self, change: Callable[[KeyValueTable], KeyValueTable]) -> None:
        async with self._one_at_a_time:
            after = change(self._table)
            if self._snapshot is not None and after is not self._table:
                namespaces = {name: dict(values) for name, values in after.namespaces.items()}
                text = fastjson.write(_File(namespaces=namespaces))
                await asyncio.to_thread(self._snapshot.save, text)
            self._table = after

    def _done(self, task: asyncio.Task[None]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # who asked was told, or is gone

    def _with_room(self, after: KeyValueTable) -> KeyValueTable:
        limits = self._settings.now
        if after.count > max(limits.max_key_values, self._table.count):
            raise KeyValuesFull(
                f"this name server keeps {limits.max_key_values} key-values and has as many: "
                "delete some, or raise maxKeyValues"
            )
        if after.total_bytes > max(limits.max_key_value_bytes, self._table.total_bytes):
            raise KeyValuesFull(
                f"this name server keeps {limits.max_key_value_bytes} bytes of key-values, and "
                f"these would be {after.total_bytes}: delete some, or raise maxKeyValueBytes"
            )
        return after


def _size(namespace: str, key: str, value: str) -> int:
    return len(namespace.encode()) + len(key.encode()) + len(value.encode())


def _parsed(text: bytes) -> _File:
    return fastjson.read(text, _File, max_bytes=MAX_SNAPSHOT_BYTES)


def _log_change(what: str, namespace: str, key: str) -> None:
    if _changes.allows():
        log.info(
            "key-value %s namespace=%r key=%r%s",
            what,
            namespace[:80],
            key[:80],
            _changes.suppressed(),
        )
