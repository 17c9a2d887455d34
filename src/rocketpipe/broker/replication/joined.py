"""The highest epoch that this replica ever joined: ``config/replication.json``.

Who leads in a lower one was replaced, whether it knows it or not: nothing of it is taken in, and
nothing is reported to it. The number is on disk before the first report to a leader, or a crash
would forget whom this replica has promised itself to.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import msgspec

from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import Snapshot

JOINED_FILE: Final = "replication.json"


class _Kept(msgspec.Struct, rename="camel", frozen=True):
    epoch: int = 0
    tables_applied: int = 0
    #: Of the machine when this was written.
    boot_id: str = ""
    group: str = ""


class JoinedEpoch:
    """What a replica has to remember of its group; each change is on disk on return."""

    def __init__(self, disk: Disk, path: Path, group: str = "") -> None:
        """``group`` is the name of the one that is joined from now on."""
        self._group = group
        self._snapshot = Snapshot(disk, path)
        self._lock = threading.Lock()
        self._kept = _Kept()

    def load(self) -> None:
        """Read what was saved last, or before; what was never saved is 0.

        Raises:
            SnapshotDamaged: Something is there that cannot be read.
            DiskError: The directory or a file in it cannot be read.
        """
        self._kept = self._snapshot.load(_parsed) or _Kept()

    @property
    def epoch(self) -> int:
        """The highest epoch that was joined; 0 if none was."""
        return self._kept.epoch

    @property
    def is_of_group(self) -> bool:
        """Whether the log is known to be this group's, and not only to have epochs like it."""
        return self._kept.epoch > 0 and self._kept.group == self._group

    @property
    def tables_applied(self) -> int:
        """The queue offset up to which the records of tables were applied."""
        return self._kept.tables_applied

    @property
    def boot_id(self) -> str:
        """Which start of the machine the last run was of; empty if that is not known."""
        return self._kept.boot_id

    def join(self, epoch: int) -> None:
        """Promise to take nothing of lower epochs; a lower one changes nothing.

        Raises:
            DiskError: It may not be saved, so nothing may be reported yet.
        """
        with self._lock:
            kept = msgspec.structs.replace(
                self._kept, epoch=max(epoch, self._kept.epoch), group=self._group
            )
            if kept == self._kept:
                return
            self._save(kept)
            # The version before it too: to fall back on that one must not break the promise.
            self._save(kept)

    def save(self, *, tables_applied: int | None = None, boot_id: str | None = None) -> None:
        """Remember how far the records of tables were applied, or of which start a run is.

        Raises:
            DiskError: It could not be saved.
        """
        with self._lock:
            applied = self._kept.tables_applied if tables_applied is None else tables_applied
            boot = self._kept.boot_id if boot_id is None else boot_id
            kept = msgspec.structs.replace(self._kept, tables_applied=applied, boot_id=boot)
            if kept != self._kept:
                self._save(kept)

    def _save(self, kept: _Kept) -> None:
        self._snapshot.save(msgspec.json.encode(kept))
        self._kept = kept


def _parsed(text: bytes) -> _Kept:
    kept = msgspec.json.decode(text, type=_Kept)
    if kept.epoch < 0 or kept.tables_applied < 0:
        raise ValueError(f"epoch {kept.epoch}, tables applied up to {kept.tables_applied}")
    return kept
