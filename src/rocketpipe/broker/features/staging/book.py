"""What is staged, prepared and committed, as the log's records make it.

The broker that runs and the one that starts change it by the same records in the same order, so
whatever was accepted is found again, and whatever was let go stays so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rocketpipe.broker.features.staging.ledger import Ledger
from rocketpipe.broker.features.staging.prepared import Preparation, PreparedTable
from rocketpipe.broker.features.staging.records import (
    Committed,
    Delivered,
    Dropped,
    Lapsed,
    LedgerRecord,
    OpenCommit,
    Prepared,
    Settled,
    Summary,
)
from rocketpipe.broker.features.staging.stages import Batch, Place, StageTable
from rocketpipe.model.offsets import LogOffset

#: How many preparations are remembered that no commit may go by.
MAX_LAPSED: Final = 10_000


@dataclass(slots=True)
class Commit:
    """A commit whose parts are being moved."""

    batch: Batch
    stages: Mapping[str, int]
    #: None while they are not all there, as in the part of the log that a summary speaks for.
    places: list[Place] | None
    moved: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_over(self) -> bool:
        """Whether all of it shows."""
        return self.moved >= sum(self.stages.values())


class StageBook:
    """The state behind staged sends; it writes nothing itself."""

    def __init__(self, stages: StageTable) -> None:
        self.stages = stages
        self.ledger = Ledger()
        self.prepared = PreparedTable()
        self.commits: dict[Batch, Commit] = {}
        self.lapsed: dict[str, None] = {}
        #: From where on the log has all of the ledger, if there is any of it.
        self.ledger_from: LogOffset | None = None

    def apply(self, record: LedgerRecord, at: LogOffset, now_ms: int) -> None:
        """Change as a record says that lies at ``at``; ``now_ms`` is on the clock of this run."""
        if self.ledger_from is None:
            self.ledger_from = at
        match record:
            case Committed():
                self._commit(record, now_ms)
            case Delivered():
                self._delivered((record.app, record.batch), record.parts)
            case Dropped():
                for name in record.stages:
                    self.stages.drop(name)
                self.prepared.without(record.stages)
            case Prepared():
                self.prepared.add(
                    (record.app, record.batch),
                    Preparation(record.token, record.stages, record.home, now_ms),
                )
            case Settled():
                self.ledger.replan(record.app, record.batch, record.plan)
            case Lapsed():
                self._lapse(record.tokens)
            case Summary():
                self._load(record, at, now_ms)

    def _commit(self, record: Committed, now_ms: int) -> None:
        batch = (record.app, record.batch)
        self.ledger.note(record.app, record.batch, now_ms, record.plan, record.content)
        self.prepared.drop(batch)
        self._open(batch, record.stages, 0)
        self._close_if_over(batch)

    def _open(self, batch: Batch, stages: Mapping[str, int], moved: int) -> None:
        whole = self.stages.missing(batch, stages) is None
        places = self.stages.places(stages) if whole else None
        self.commits[batch] = Commit(batch, dict(stages), places, moved)

    def _delivered(self, batch: Batch, parts: int) -> None:
        commit = self.commits.get(batch)
        if commit is not None:
            commit.moved = parts
            self._close_if_over(batch)

    def _close_if_over(self, batch: Batch) -> None:
        if self.commits[batch].is_over:
            del self.commits[batch]
            self.stages.drop_batch(batch)

    def _lapse(self, tokens: tuple[str, ...]) -> None:
        self.lapsed.update(dict.fromkeys(tokens))
        while len(self.lapsed) > MAX_LAPSED:
            del self.lapsed[next(iter(self.lapsed))]

    def _load(self, record: Summary, at: LogOffset, now_ms: int) -> None:
        self.ledger.load(record.apps, now_ms)
        self.lapsed = dict.fromkeys(record.lapsed)
        self.ledger_from = at
        known, self.commits = self.commits, {}
        for each in record.open:
            batch = (each.app, each.batch)
            if batch in known:
                self.commits[batch] = known[batch]
                known[batch].moved = each.moved
            else:
                self._open(batch, each.stages, each.moved)

    def summary(self, queue_end: int, now_ms: int) -> Summary:
        """All of it, but for stages and preparations: they are found behind the first that lives.

        ``queue_end`` is where the next part will lie in its queue.
        """
        alive = (place.queue_offset for place in self.stages.all_places())
        return Summary(
            apps=tuple(self.ledger.entries(now_ms)),
            open=tuple(
                OpenCommit(app=app, batch=batch, stages=dict(each.stages), moved=each.moved)
                for (app, batch), each in self.commits.items()
            ),
            stages_from=min(alive, default=queue_end),
            lapsed=tuple(self.lapsed),
        )

    def needed(self) -> LogOffset | None:
        """From where on the log must stay, if any of it must."""
        offsets = [place.log_offset for place in self.stages.all_places()]
        if self.ledger_from is not None:
            offsets.append(self.ledger_from)
        return min(offsets, default=None)

    def unfinished(self) -> int:
        """How many stages and commits are not over, and plans that other brokers may ask for."""
        return len(self.stages) + len(self.commits) + self.ledger.plan_count

    def unused_since(self, before_ms: int) -> list[str]:
        """Stages that got no part since, and that nobody counts on."""
        kept = set(self.prepared.stages())
        found = []
        for name in self.stages.unused_since(before_ms):
            stage = self.stages.get(name)
            if stage is not None and stage.batch not in self.commits and name not in kept:
                found.append(name)
        return found
