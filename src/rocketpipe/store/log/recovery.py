"""What a log is worth when it is opened, after a stop or after a crash.

The walk over the records starts where the checkpoint says that everything is durable, so that it
takes as long as the tail behind that place is. Where nothing of ours is in the checkpoint, its
times are taken, less three seconds, and the newest segment that begins before them; and else all
of the log is walked. What follows the last whole record decides:

    no whole record is behind it         a torn tail: cut, and what is left is made durable
    there is one, behind what is durable records lost their order on the way to the disk: what is
                                         cut is kept under ``quarantine``
    there is one, in what was durable    damage: `StoreDamaged`, or skipped if the settings say so
    the rest of a group is missing       cut where the group starts

Nothing is cut without a warning that names the file and the place, unless it was never written.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from rocketpipe.model.flags import Transaction
from rocketpipe.model.names import SELF_TEST_TOPIC
from rocketpipe.model.offsets import LogOffset
from rocketpipe.record import checksum, hot
from rocketpipe.record.layout import HEADS, MAX_RECORD_BYTES, SEAL_BYTES
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import StoreDamaged
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.quarantine import Quarantine
from rocketpipe.store.layout import UNFINISHED, StoreLayout
from rocketpipe.store.log.commit_log import WALK_BYTES, CommitLog, filler
from rocketpipe.store.log.end import (
    Walked,
    end_of_data,
    next_whole,
    reason_at,
    record_at,
    stored_ms_of,
    unfinished_group,
    walk_to_end,
)
from rocketpipe.store.log.segment import Segment
from rocketpipe.store.state.checkpoint import NEVER, CheckpointData

log = logging.getLogger(__name__)

_LEAST_WINDOW: Final = 64 << 20
_NO_HOST: Final = bytes(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of a log that was recovered: every byte before it is whole and durable."""

    end: LogOffset
    #: Where the last record starts; −1 if there is none.
    last_record: int
    #: When it was stored; 0 if there is none.
    stored_ms: int
    #: Where the walk began: what lies before it was taken as it is.
    walked_from: LogOffset
    #: How many records were looked at.
    records: int
    #: From where on every record has a checksum, as far as is known.
    sealed_from: int


class LogRecovery:
    """Finds the end of a log, and makes what lies before it durable and what lies behind zeros."""

    def __init__(
        self,
        commit_log: CommitLog,
        checkpoint: CheckpointData,
        config: StoreConfig,
        disk: Disk,
        *,
        clean: bool,
        failed: bool,
        ours: bool,
    ) -> None:
        """Take what the last run left.

        ``clean``: it ended well. ``failed``: its last writes are not to be trusted. ``ours``: it
        was ours, and did not end well, so that nobody else has written to the log since.
        """
        self._log = commit_log
        self._checkpoint = checkpoint
        self._config = config
        self._disk = disk
        quarantine = StoreLayout(config.root).quarantine
        self._kept = Quarantine(disk, quarantine, config.quarantine_bytes)
        self._clean = clean
        self._failed = failed
        own = checkpoint.own
        self._durable = own.confirmed if own is not None else 0
        if own is not None:
            commit_log.sealed_from = own.sealed_from
            # What another broker may have added has no checksum.
            commit_log.sealed_to = NEVER if ours else own.confirmed

    def run(self) -> LogEnd:
        """Recover the log.

        Raises:
            StoreDamaged: Records that were durable are not whole.
            DiskError: The log cannot be read, or what was found not be made durable.
        """
        if not self._log.run.segments:
            return self._without_segments()
        start = max(self._start(), self._log.run.first)
        if self._failed:
            self._distrust_cache()
        found = self._walk(start)
        if found.end < self._durable:
            self._refuse_or_keep(found)
        if found.last_record < 0 and start > self._log.run.first:
            # Not even the first record of the tail is there: the one before it is needed.
            found = self._walk(self._log.run.first, stop=found.end)
        self._settle(found.end)
        last = record_at(self._log, found.last_record) if found.last_record >= 0 else None
        return LogEnd(
            end=LogOffset(found.end),
            last_record=found.last_record,
            stored_ms=stored_ms_of(last) if last is not None else 0,
            walked_from=LogOffset(start),
            records=found.records,
            sealed_from=self._sealed_from(found),
        )

    def _sealed_from(self, found: Walked) -> int:
        own = self._checkpoint.own
        if own is None or found.unsealed >= own.sealed_from:
            return found.end
        return min(own.sealed_from, found.end)

    def _without_segments(self) -> LogEnd:
        if self._durable > 0 and self._config.on_damaged_log == "stop":
            reason = f"no segment is there, where the log was durable up to {self._durable}"
            raise StoreDamaged(self._log.path_of(0), 0, reason)
        return LogEnd(
            end=LogOffset(0),
            last_record=-1,
            stored_ms=0,
            walked_from=LogOffset(0),
            records=0,
            sealed_from=0,
        )

    def _start(self) -> int:
        """Where to begin: the start of a record before which nothing is in doubt."""
        own, first = self._checkpoint.own, self._log.run.first
        if own is not None and own.last_record >= first:
            record = record_at(self._log, own.last_record)
            if record is not None and own.last_record + len(record) == own.confirmed:
                return own.last_record
        if own is not None:
            return first
        safe_ms = self._checkpoint.safe_ms
        if safe_ms > 0:
            for segment in reversed(self._log.run.segments):
                record = record_at(self._log, segment.base)
                if record is not None and 0 < stored_ms_of(record) <= safe_ms:
                    return segment.base
        return first

    def _walk(self, start: int, stop: int | None = None) -> Walked:
        """Walk as far as records are whole and groups complete, past damage if that is allowed."""
        at = start
        while True:
            found = walk_to_end(self._log, at, stop)
            if stop is not None:
                return found
            bad = found.stopped_at
            behind = next_whole(self._log, bad + 1, self._search_end(bad))
            if behind is None:
                break
            if not self._was_durable(bad, behind):
                self._quarantine(bad, behind)
                break
            self._skip(bad, behind, found.reason)
            at = found.last_record if found.last_record >= 0 else start
        group = unfinished_group(self._log, found)
        if group is not None:
            log.warning(
                "group cut, as its end is missing file=%s offset=%d end=%d",
                self._log.path_of(group),
                group,
                found.end,
            )
            return self._cut_at(group, start)
        if start != at:
            return walk_to_end(self._log, start, found.end)
        return found

    def skip(self, bad: int, reason: str) -> None:
        """Deal with a record that was found not to be whole behind the back of the walk.

        Raises:
            StoreDamaged: As nothing is to be skipped.
            DiskError: The log cannot be read or written.
        """
        self._skip(bad, next_whole(self._log, bad + 1, self._log.run.end), reason)

    def _skip(self, bad: int, behind: int | None, reason: str) -> None:
        if behind is None or self._config.on_damaged_log == "stop":
            raise StoreDamaged(self._log.path_of(bad), bad, reason, behind)
        self._bridge(bad, behind)

    def _cut_at(self, end: int, start: int) -> Walked:
        if end < start:
            start = max(self._log.run.first, end - end % self._log.run.size)
        return walk_to_end(self._log, start, end)

    def _search_end(self, bad: int) -> int:
        """Up to where something may have been written when the last run ended."""
        if self._checkpoint.own is None:
            return self._log.run.end
        window = 2 * max(self._config.unflushed_bytes, _LEAST_WINDOW)
        return min(self._log.run.end, bad + window)

    def _was_durable(self, bad: int, behind: int) -> bool:
        if self._checkpoint.own is not None:
            return bad < self._durable
        # A foreign checkpoint has times: what was stored before was on the disk. Without any,
        # nothing says that it was not.
        if self._checkpoint.log_ms == 0:
            return True
        record = record_at(self._log, behind)
        return record is None or stored_ms_of(record) <= self._checkpoint.log_ms

    def _refuse_or_keep(self, found: Walked) -> None:
        """The log ends before the place up to which it was durable, and nothing is behind."""
        path = self._log.path_of(found.stopped_at)
        reason = f"{found.reason}, where the log was durable up to {self._durable}"
        if self._config.on_damaged_log == "stop":
            raise StoreDamaged(path, found.stopped_at, reason)
        log.warning(
            "log is cut by damage file=%s offset=%d reason=%s", path, found.stopped_at, reason
        )
        self._copy_away(found.end, end_of_data(self._log, found.end, self._search_end(found.end)))

    def _quarantine(self, bad: int, behind: int) -> None:
        """Keep what is cut off, although nobody was promised that it would be kept."""
        end = end_of_data(self._log, bad, self._search_end(bad))
        count = 0
        at: int | None = behind
        while at is not None and at < end:
            walked = walk_to_end(self._log, at, end)
            count += walked.records
            at = next_whole(self._log, walked.end + 1, end)
        log.warning(
            "log is cut before whole records file=%s offset=%d reason=%s lost=%d kept_in=%s",
            self._log.path_of(bad),
            bad,
            reason_at(self._log, bad),
            count,
            self._copy_away(bad, end),
        )

    def _copy_away(self, start: int, end: int) -> str:
        def read(place: int, size: int) -> bytes:
            return self._log.run.read(start + place, size)

        return str(self._kept.keep(f"{start:020d}", end - start, read))

    def _bridge(self, bad: int, behind: int) -> None:
        """Put something readable over damaged bytes, so that the log can be walked past them.

        Up to the end of a segment that is a filler; else a record that is in no queue.
        """
        kept = self._copy_away(bad, behind)
        log.warning(
            "damage is skipped file=%s offset=%d next_good=%d kept_in=%s",
            self._log.path_of(bad),
            bad,
            behind,
            kept,
        )
        size = self._log.run.size
        at = bad
        while at < behind:
            segment_end = at - at % size + size
            if behind >= segment_end:
                self._log.run.write(at, filler(segment_end - at))
                at = segment_end
            else:
                self._log.run.write(at, _bridge_record(at, behind - at, self._log))
                at = behind
        self._log.sync(bad, behind)

    def _distrust_cache(self) -> None:
        """Read the tail from the disk: a failed sync leaves pages that say what it does not."""
        for segment in self._log.run.segments:
            if segment.end > self._durable:
                segment.forget_cached()

    def _settle(self, end: int) -> None:
        """Have the log end there, durably."""
        run = self._log.run
        dirty_end = self._search_end(end)
        run.truncate(end, dirty_end if self._checkpoint.own is not None else None)
        if self._clean:
            return
        start = max(run.first, min(self._durable, end))
        if self._failed:
            for segment in run.segments:
                if segment.base < end and segment.end > start:
                    self._copy(segment, end)
            return
        if self._checkpoint.own is not None:
            self._write_again(start, end)
        self._log.sync(start, max(end, start + 1))

    def _write_again(self, start: int, end: int) -> None:
        """Have the tail be dirty again, so that the sync that follows really writes it.

        The last run may have died of a failed sync without a chance to leave word of it; what the
        page cache has of the tail would then be called clean and be nowhere else.
        """
        at = start
        while at < end:
            data = self._log.run.read(at, min(WALK_BYTES, end - at))
            if not data:
                break
            self._log.run.write(at, data)
            at += len(data)

    def _copy(self, segment: Segment, end: int) -> None:
        """Move a segment to a fresh file: to sync it again would prove nothing."""
        fresh = segment.path.with_name(segment.path.name + UNFINISHED)
        with self._disk.create(fresh) as file:
            file.preallocate(segment.size)
            at = segment.base
            stop = min(end, segment.end)
            while at < stop:
                data = segment.read(at, min(WALK_BYTES, stop - at))
                if not data:
                    break
                file.write(data, at - segment.base)
                at += len(data)
            file.sync()
        self._log.run.replace(segment, fresh)


def _bridge_record(at: int, size: int, commit_log: CommitLog) -> bytes:
    """A record of exactly ``size`` bytes that is in no queue and in no index."""
    # What is in a topic of one byte fits wherever a record was, with a checksum if that had one.
    for name, added in ((SELF_TEST_TOPIC, SEAL_BYTES), ("-", SEAL_BYTES), ("-", 0)):
        magic, topic = hot.topic_head(name.encode())
        room = size - HEADS[0].size - len(topic) - 2 - added
        if room >= 0:
            break
    properties = checksum.reserve(b"") if added else b""
    if room < 0 or size > MAX_RECORD_BYTES:
        reason = f"{size} bytes can be covered by no record"
        raise StoreDamaged(commit_log.path_of(at), at, reason, at + size)
    record = hot.encode(
        magic,
        0,
        0,
        0,
        at,
        int(Transaction.ROLLED_BACK),
        0,
        _NO_HOST,
        0,
        _NO_HOST,
        0,
        0,
        bytes(room),
        topic,
        properties,
    )
    return hot.seal(record) if properties else record
