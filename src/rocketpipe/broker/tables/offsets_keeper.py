"""Where places of groups are kept: as a whole while they are few, and by their changes when many.

Up to `FEW_PLACES` the whole table is written whenever it changed. Beyond that the changes go to a
journal beside it, and the whole table is written anew now and then, a little at a time, by a thread
that leaves the loop most of the time; and when the broker stops. So ``consumerOffset.json`` is
right after a stop, and seconds to minutes old before it (five with a million places); what a kill
leaves is the table and its journal: see ``change_journal``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from rocketpipe.broker.tables.change_journal import ChangeJournal, JournalClosed
from rocketpipe.broker.tables.offsets import Change, OffsetsFile, OffsetTable
from rocketpipe.broker.tables.table_file import TableFile
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.store.files.disk import Disk

FEW_PLACES: Final = 2000
#: A longer journal, or an older table, has the whole table written.
LONG_JOURNAL_BYTES: Final = 64 << 20
OLD_MS: Final = 5000
OLD_MS_A_THOUSAND: Final = 300

#: Changes in one block of a journal, and pieces that are written together.
_AT_ONCE: Final = 500
#: A thread that shares the interpreter with the loop rests so long after each of these.
_REST_S: Final = 0.002


class _Stopped(RocketPipeError):
    """The whole table is not needed any more, as another is about to be written."""


class OffsetsKeeper:
    """Loads and saves an `OffsetTable`."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        table: OffsetTable,
        clock: Clock,
        *,
        few: int = FEW_PLACES,
        long_journal: int = LONG_JOURNAL_BYTES,
    ) -> None:
        self._table = table
        self._clock = clock
        self._few = few
        self._long_journal = long_journal
        self._file = TableFile(disk, path, OffsetsFile)
        self._journal = ChangeJournal(disk, path)
        self._written_ms = clock.monotonic_ms()
        self._is_stopping = threading.Event()
        #: Whether the journal has what the whole table has not.
        self._is_behind = False
        self._is_cleared = False

    def load(self) -> None:
        """Read the table, and what changed after it was written.

        Raises:
            SnapshotDamaged: Neither version of the table can be read.
            DiskError: The disk refused.
        """
        if (saved := self._file.load()) is not None:
            self._table.load(saved)
        for changes in self._journal.load(self._file.crc):
            self._is_behind = True
            self._table.replay(msgspec.json.decode(changes, type=list[Change]))

    def writer(self) -> Callable[[], None]:
        """The saving of what changed until now, for a thread that may wait.

        It may be called once.
        """
        if len(self._table) <= self._few:
            changed = self._table.take_changed()
            write = self._file.writer(self._table.to_file(self._clock.now_ms()))
            return lambda: self._putting_back(changed, lambda: self._write_few(write))
        changed = self._table.take_changed()
        return lambda: self._putting_back(changed, lambda: self._write_changes(changed))

    def save(self) -> None:
        """Write the whole table now, as when the broker stops.

        Raises:
            DiskError: It could not be written.
        """
        self.stop_renewing()
        changed = self._table.take_changed()
        if len(self._table) <= self._few:
            write = self._file.writer(self._table.to_file(self._clock.now_ms()))
            self._putting_back(changed, lambda: self._write_few(write))
        else:
            self._putting_back(changed, self._write_whole)

    @property
    def is_behind(self) -> bool:
        """Whether the whole table, as others read it, lacks something that was saved."""
        return self._is_behind

    @property
    def wants_whole(self) -> bool:
        """Whether it is time for `renew`."""
        old_ms = max(OLD_MS, len(self._table) * OLD_MS_A_THOUSAND // 1000)
        return self._is_behind and (
            self._journal.size > self._long_journal
            or self._clock.monotonic_ms() - self._written_ms > old_ms
        )

    def renew(self) -> None:
        """Write the whole table, a little at a time, on a thread of its own, while others save.

        Raises:
            DiskError: It could not be written; the last one and its journals are there.
        """
        self._is_behind = False
        self._is_stopping.clear()
        try:
            self._journal.begin(self._file.crc)
            self._file.save_pieces(self._pieces(rest=True), self._journal.follow)
        except (_Stopped, JournalClosed):
            self._is_behind = True
            return
        except BaseException:
            self._is_behind = True
            raise
        finally:
            self._written_ms = self._clock.monotonic_ms()
        self._journal.drop_old()

    def stop_renewing(self) -> None:
        """Have `renew` give up, if it is under way: the whole table is about to be saved."""
        self._is_stopping.set()

    def _putting_back(self, changed: set[tuple[str, str, int]], write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException:
            self._table.put_back_changed(changed)
            raise

    def _write_few(self, write: Callable[[], None]) -> None:
        write()
        self._written_ms, self._is_behind = self._clock.monotonic_ms(), False
        if self._journal.is_open or not self._is_cleared:
            self._journal.drop_all()
            self._is_cleared = True

    def _write_whole(self) -> None:
        self._file.save_pieces(self._pieces(rest=False), lambda _: None)
        self._written_ms, self._is_behind = self._clock.monotonic_ms(), False
        self._journal.drop_all()

    def _write_changes(self, changed: set[tuple[str, str, int]]) -> None:
        if self._file.crc is None:  # there is nothing yet that a journal could follow
            self._write_whole()
            return
        if not self._journal.is_open:
            # The first of this run, or the last one failed: only a journal that follows a table
            # counts, and that table is the one that is there.
            self._journal.begin(self._file.crc)
        self._journal.add(self._lists(changed))
        self._is_behind, self._is_cleared = True, False

    def _lists(self, changed: Iterable[tuple[str, str, int]]) -> Iterator[bytes]:
        keys = iter(changed)
        while some := list(islice(keys, _AT_ONCE)):
            changes = [change for key in some if (change := self._table.change(key)) is not None]
            if changes:
                yield msgspec.json.encode(changes)
            if len(some) == _AT_ONCE:
                time.sleep(_REST_S)

    def _pieces(self, *, rest: bool) -> Iterator[bytes]:
        pieces = self._table.pieces(self._clock.now_ms())
        while some := list(islice(pieces, _AT_ONCE)):
            yield "".join(some).encode()
            if rest:
                if self._is_stopping.is_set():
                    raise _Stopped("a whole table is about to be written")
                time.sleep(_REST_S)
