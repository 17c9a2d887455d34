"""From a message's keys to its place in the log.

    index/<yyyyMMddHHmmssSSS>   index files, named for when they were made; see ``index_file``
    sums/index.json             what they were like when they were synced last

The second is ours, and other readers of the directory do not look at it:

    {"holds_to": log offset, "files": [[name, header, [checksum, …], [checksum, …]], …]}
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Final

from rocketpipe.clock import Clock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.errors import IndexDamaged
from rocketpipe.store.files.background_sync import PendingSync
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.files.snapshot import Snapshot, SnapshotDamaged
from rocketpipe.store.index.entries import INDEX_KEY, INDEX_KEY_BYTES, key_hash
from rocketpipe.store.index.index_file import IndexFile
from rocketpipe.store.index.layout import IndexSums, file_bytes

log = logging.getLogger(__name__)

_NAME_DIGITS: Final = 17
#: Slots and entries of a file are told from its length with the proportion that RocketMQ has.
_ENTRIES_PER_SLOT: Final = 4
_EVER_MS: Final = (1 << 63) - 1


class KeyIndex:
    """Keys of messages, by topic. What is put can be found at once, and is written when asked."""

    def __init__(
        self,
        disk: Disk,
        files: OpenFiles,
        directory: Path,
        sums: Path,
        *,
        slots: int,
        entries: int,
        clock: Clock,
        zone: tzinfo | None = None,
    ) -> None:
        """Take a directory of index files; call `recover` before anything else if it has any.

        ``slots`` and ``entries`` are those of new files if there are none; ``zone`` is that of
        file names, the machine's by default.
        """
        self._disk = disk
        self._files = files
        self._directory = directory
        self._sums = Snapshot(disk, sums)
        self._slots = slots
        self._entries = entries
        self._clock = clock
        self._zone = zone
        self._list: list[IndexFile] = []
        self._writing: IndexFile | None = None
        self._last_offset = -1
        self._keys_of_last = 0
        self._new_names = False
        self._unsynced: list[IndexFile] = []
        self._synced_to = LogOffset(0)
        #: How often files were found damaged, and dropped.
        self._drops = 0
        #: Whether what was dispatched long ago is being indexed again: who asks is to wait.
        self.rebuilding = False
        #: Every record before it is indexed. The dispatcher moves it.
        self.holds_to = LogOffset(0)

    @property
    def synced_to(self) -> LogOffset:
        """Every entry of every record before it survives a power cut."""
        return self._synced_to

    def put(self, log_offset: LogOffset, stored_ms: int, hashes: Sequence[int]) -> None:
        """Index a record under the numbers of its keys; to do it again is no harm.

        Raises:
            DiskError: A new file cannot be made.
        """
        self.put_all(b"".join([INDEX_KEY.pack(each, log_offset, stored_ms) for each in hashes]))

    def put_all(self, keys: bytes) -> None:
        """Index records in log order, all keys of each as ``entries`` has them.

        To do it again is no harm.

        Raises:
            DiskError: A new file cannot be made; the rest is not indexed yet.
        """
        if keys and INDEX_KEY.unpack_from(keys)[1] <= max(self._last_offset, self.holds_to - 1):
            keys = self._new_ones(keys)
        done = 0
        while done < len(keys):
            file = self._writing
            if file is None or file.full:
                file = self._roll()
            part = keys[done : done + file.room * INDEX_KEY_BYTES]
            file.put_all(part)
            done += len(part)
            last, many = _last_of(part)
            if last != self._last_offset:
                self._last_offset, self._keys_of_last = last, 0
            # Behind the last of another record they are all of this one.
            self._keys_of_last += many

    def _new_ones(self, keys: bytes) -> bytes:
        """Those that are not here yet: of the last record that is, some may be missing."""
        last, skipped = self._last_offset, self._keys_of_last
        wanted = []
        for key in INDEX_KEY.iter_unpack(keys):
            at = key[1]
            if at < self.holds_to or at < last:
                continue
            if at == last and skipped:
                skipped -= 1
                continue
            wanted.append(INDEX_KEY.pack(*key))
        return b"".join(wanted)

    def _roll(self) -> IndexFile:
        behind = self._list[-1] if self._list else None
        if not self._list:
            self._files.make_directory(self._directory)
        file = IndexFile(self._files, self._new_path(), self._slots, self._entries)
        if behind is not None:
            if behind.dirty and behind not in self._unsynced:
                self._unsynced.append(behind)
            behind.close_table()
        file.create(behind)
        self._list.append(file)
        self._unsynced.append(file)
        self._new_names = True
        self._writing = file
        return file

    def _new_path(self) -> Path:
        now_ms = self._clock.now_ms()
        moment = datetime.fromtimestamp(now_ms // 1000, self._zone)
        name = f"{moment:%Y%m%d%H%M%S}{now_ms % 1000:03d}"
        if self._list:
            # A clock that went back must not bring files out of order.
            name = max(name, f"{int(self._list[-1].path.name) + 1:0{_NAME_DIGITS}d}")
        return self._directory / name

    def find(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = _EVER_MS
    ) -> Iterator[LogOffset]:
        """Give the offsets of records that may have this key, newest first, without a limit.

        Another key may have the same hash, and times are kept in seconds: look into the record.

        Raises:
            IndexDamaged: A file is not as it was written; `drop_from` it and dispatch again.
            DiskError: A file cannot be read.
        """
        number = key_hash(topic, key)
        for file in reversed(list(self._list)):
            yield from file.find(number, begin_ms, end_ms)

    def flush_pending(self) -> None:
        """Write what waits in memory; it is in the page cache on return.

        Raises:
            DiskError: Not all of it was; the rest waits on, and is found as before.
        """
        if self._writing is not None and self._writing.dirty:
            self._writing.write()
            if self._writing not in self._unsynced:
                self._unsynced.append(self._writing)

    def sync(self, *, closing: bool = False) -> None:
        """Return once everything that was put survives a power cut; ``synced_to`` moves up.

        When ``closing``, so much is noted that the next opening need not read the entries.

        Raises:
            DiskError: It may not. The files are not to be synced again.
        """
        self.begin_sync(closing=closing).now()

    def begin_sync(self, *, closing: bool = False) -> PendingSync:
        """Write what was put so far, and have it survive a power cut, as `sync` does.

        Raises:
            DiskError: It cannot be written.
        """
        self.flush_pending()
        for file in self._unsynced:
            file.write()
        text = self._sums_text(self.holds_to, closing=closing)
        files = self._files.begin_sync([file.path for file in self._unsynced])
        directories = self._files.begin_sync_directories()
        holds_to, drops = self.holds_to, self._drops
        written, new_names = self._unsynced, self._new_names
        self._unsynced, self._new_names = [], False

        def wait() -> None:
            files.wait()
            directories.wait()
            if new_names:
                self._disk.sync_directory(self._directory)
            self._sums.save(text)
            self._files.remove_doomed()

        def note() -> None:
            files.note()
            if drops == self._drops:
                self._synced_to = holds_to

        def undo() -> None:
            files.undo()
            directories.undo()
            left = [file for file in written if file in self._list and file not in self._unsynced]
            self._unsynced += left
            self._new_names |= new_names

        return PendingSync(wait, note, undo)

    def recover(
        self,
        log_first: LogOffset,
        log_end: LogOffset,
        trusted_to: LogOffset,
        *,
        clean: bool,
        safe_ms: int = 0,
    ) -> LogOffset:
        """Take over the files; gives the offset in the log from which to dispatch again.

        ``trusted_to`` is for files that another broker wrote, or whose checksums are gone: the
        offset before which they are believed to be complete if that broker stopped ``clean``. If
        it did not, files with messages stored after ``safe_ms`` are not believed.

        Raises:
            DiskError: The files cannot be read, or not be removed.
        """
        known = self._load_sums()
        start = LogOffset(min(trusted_to, log_end)) if known is None else known[0]
        if start > log_end or start < log_first:
            start = LogOffset(max(log_first, min(start, log_end)))
            clean = False
        sums = {} if known is None else known[1]
        # Files before the first known one were removed, and a power cut brought them back.
        names = [name for name in self._names() if not sums or name >= min(sums)]
        missing = sorted(set(sums) - set(names))
        if missing and any(name > missing[0] for name in names):
            names = [name for name in names if name < missing[0]]
        for name in names:
            expected = sums.get(name)
            if known is not None and expected is None:
                break  # it was made after the last sync
            file = self._open(name)
            last = name == names[-1] or (known is not None and name == max(sums))
            try:
                file.load(expected, clean=clean, write=last, log_end=start)
                if known is None and not clean and file.end_ms > safe_ms:
                    raise IndexDamaged(file.path, "it may not be complete")
            except IndexDamaged as damage:
                log.warning("index file is written again from the log reason=%s", damage)
                start = min(start, self._end(log_first))
                break
            if file.count > 1 and file.begin_offset >= start:
                break  # the log was cut before it
            self._list.append(file)
            if file.dirty:
                self._unsynced.append(file)
            if not file.full:
                break
        self._remove_others()
        if missing or (known is None and not self._list):
            start = min(start, self._end(log_first))
        self._take_last(start)
        return start

    def _take_last(self, start: LogOffset) -> None:
        self._writing = None
        self._last_offset, self._keys_of_last = -1, 0
        if self._list:
            last = self._list[-1]
            if not last.full:
                last.ready_to_write()
                self._writing = last
            self._last_offset, self._keys_of_last = last.end_offset, last.keys_of_last()
            for earlier in reversed(self._list[:-1]):
                # The keys of one message may be in two files.
                if not earlier.end_offset == last.begin_offset == self._last_offset:
                    break
                self._keys_of_last += earlier.keys_of_last()
                last = earlier
        self.holds_to = self._synced_to = start

    def _end(self, log_first: LogOffset) -> LogOffset:
        """Where to go on behind the files that are good; the last record may lack some keys."""
        return LogOffset(max(log_first, self._list[-1].end_offset if self._list else 0))

    def _names(self) -> list[str]:
        if self._directory.name not in self._disk.names(self._directory.parent):
            return []
        return [
            name
            for name in self._disk.names(self._directory)
            if len(name) == _NAME_DIGITS and name.isascii() and name.isdigit()
        ]

    def _open(self, name: str) -> IndexFile:
        path = self._directory / name
        length = self._files.get(path).size()
        if length != file_bytes(self._slots, self._entries):
            slots = (length - file_bytes(0, 0)) // file_bytes_per_slot()
            if slots >= 1 and length == file_bytes(slots, slots * _ENTRIES_PER_SLOT):
                return IndexFile(self._files, path, slots, slots * _ENTRIES_PER_SLOT)
        return IndexFile(self._files, path, self._slots, self._entries)

    def _remove_others(self) -> None:
        kept = {file.path.name for file in self._list}
        for name in self._names():
            if name not in kept:
                self._remove(self._directory / name)

    def _remove(self, path: Path) -> None:
        self._files.forget(path)
        self._disk.remove(path)
        self._new_names = True

    def drop_from(self, path: Path, log_first: LogOffset) -> LogOffset:
        """Remove a damaged file and all behind it; gives the offset to dispatch from again.

        Raises:
            DiskError: A file cannot be removed.
        """
        self._drops += 1
        while self._list and self._list[-1].path.name >= path.name:
            self._remove(self._list.pop().path)
        self._unsynced = [file for file in self._unsynced if file in self._list]
        start = self._end(log_first)
        self._take_last(start)
        return start

    def truncate(self, log_end: LogOffset, log_first: LogOffset) -> None:
        """Drop the entries of records that are not before ``log_end``, durably.

        Raises:
            DiskError: The files cannot be cut.
        """
        self.sync()
        if self.holds_to > log_end:
            self._list.clear()
            self._last_offset, self._keys_of_last = -1, 0
            self.recover(log_first, log_end, log_end, clean=False)
            self.sync()

    def delete_before(self, log_offset: LogOffset) -> int:
        """Remove the files that speak only of records below ``log_offset``, but not the last one.

        Gives the number of files removed.

        Raises:
            DiskError: A file cannot be removed.
        """
        removed, portion = self.begin_delete(log_offset)
        portion.now()
        return removed

    def begin_delete(self, log_offset: LogOffset) -> tuple[int, PendingSync]:
        """Do without the files that speak only of records below ``log_offset``; gives how many.

        Raises:
            DiskError: What waits in memory cannot be written.
        """
        removed = 0
        while len(self._list) > 1 and self._list[0].end_offset < log_offset:
            file = self._list.pop(0)
            if file in self._unsynced:
                self._unsynced.remove(file)
            self._files.doom(file.path)
            self._new_names = True
            removed += 1
        if removed:
            # Or a crash would have them looked for, and the index written again.
            return removed, self.begin_sync()
        return 0, PendingSync(self._files.remove_doomed)

    def _sums_text(self, holds_to: LogOffset, *, closing: bool) -> bytes:
        files = []
        for file in self._list:
            sums = file.sums(slots=closing or file is not self._writing)
            files.append([file.path.name, sums.header.hex(), sums.entries, sums.slots])
        return json.dumps({"holds_to": holds_to, "files": files}).encode()

    def _load_sums(self) -> tuple[LogOffset, dict[str, IndexSums]] | None:
        try:
            return self._sums.load(_parse_sums)
        except SnapshotDamaged as damage:
            log.warning("checksums of the index are gone reason=%s", damage)
            return None


def _last_of(keys: bytes) -> tuple[int, int]:
    """The offset of the last record that keys are of, and how many of them are its own."""
    at = len(keys) - INDEX_KEY_BYTES
    last: int = INDEX_KEY.unpack_from(keys, at)[1]
    count = 1
    while at and INDEX_KEY.unpack_from(keys, at - INDEX_KEY_BYTES)[1] == last:
        at -= INDEX_KEY_BYTES
        count += 1
    return last, count


def file_bytes_per_slot() -> int:
    """How much a file grows with a slot and the entries that go with it."""
    return file_bytes(1, _ENTRIES_PER_SLOT) - file_bytes(0, 0)


def _parse_sums(text: bytes) -> tuple[LogOffset, dict[str, IndexSums]]:
    whole: Any = json.loads(text)
    try:
        return LogOffset(whole["holds_to"]), {
            name: IndexSums(bytes.fromhex(header), entries, slots)
            for name, header, entries, slots in whole["files"]
        }
    except (KeyError, TypeError) as error:
        raise ValueError(f"no checksums of index files: {error!r}") from error
