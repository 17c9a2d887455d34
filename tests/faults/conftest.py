"""What the tests of faults share: each kind of record, and the mutants that must turn them red."""

from __future__ import annotations

import pytest

from rocketpipe.store.derived import dispatcher
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.log import commit_log, records
from rocketpipe.store.log import end as log_end
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.queues import entries
from rocketpipe.testing.simulation.small_store import KINDS, Kind


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    """A test that takes it runs for each kind of record."""
    return KINDS[request.param]


class Agreeing(int):
    """A checksum that is equal to any other."""

    def __and__(self, other: int) -> Agreeing:
        return self

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


@pytest.fixture
def skip_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: whoever compares a checksum finds it right."""
    for module in (records, entries, log_end):
        monkeypatch.setattr(module, "crc32", lambda *data: Agreeing())
    for module in (records, log_end):
        monkeypatch.setattr(module, "_SEAL_NAME", b"never there")
    for module in (records, dispatcher):  # who imported it has it under a name of its own
        monkeypatch.setattr(module, "is_sealed", lambda record: False)
    monkeypatch.setattr(CommitLog, "must_be_sealed", lambda log, at: False)
    monkeypatch.setattr(commit_log, "is_sealed", lambda record: True)


@pytest.fixture
def retry_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a sync that failed is tried again, and its success is believed."""
    once = CommitLog.sync

    def sync(log: CommitLog, start: int, end: int) -> None:
        try:
            once(log, start, end)
        except DiskError:
            once(log, start, end)

    monkeypatch.setattr(CommitLog, "sync", sync)
