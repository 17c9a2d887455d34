"""The way of a message, put together from what its clients told to the topic of traces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rocketpipe.model.trace import (
    Consumed,
    Consuming,
    Published,
    Recalled,
    TraceRecord,
    TransactionEnded,
)


@dataclass(frozen=True, slots=True)
class Handling:
    """One call of a consumer's handler; a half of it may not have been told."""

    before: Consuming | None
    after: Consumed | None

    @property
    def group(self) -> str | None:
        """The group that consumed it."""
        if self.before is not None:
            return self.before.group
        return self.after.group if self.after is not None else None

    @property
    def success(self) -> bool | None:
        """Whether the message was done with; None while that is not known."""
        return self.after.success if self.after is not None else None


@dataclass(frozen=True, slots=True)
class MessageTrace:
    """What is known of one message, each kind in the order in which it happened."""

    message_id: str
    published: tuple[Published, ...] = ()
    transactions: tuple[TransactionEnded, ...] = ()
    recalls: tuple[Recalled, ...] = ()
    handlings: tuple[Handling, ...] = ()

    @property
    def keys(self) -> set[str]:
        """What its clients said of its keys."""
        said = [each.keys for each in self.published]
        said += [each.keys for each in self.transactions]
        said += [each.before.keys for each in self.handlings if each.before is not None]
        said += [each.after.keys for each in self.handlings if each.after is not None]
        return {keys for keys in said if keys}

    @property
    def timeline(self) -> list[TraceRecord]:
        """Everything, in the order of time; what does not say when comes behind what it ends."""
        records: list[TraceRecord] = [*self.published, *self.transactions, *self.recalls]
        for handling in self.handlings:
            records += [half for half in (handling.before, handling.after) if half is not None]
        began = {
            each.before.request_id: each.before.time_ms for each in self.handlings if each.before
        }

        def when(record: TraceRecord) -> int:
            if record.time_ms is not None:
                return record.time_ms
            assert isinstance(record, Consumed), "only the end of a handling may not say when"
            return began.get(record.request_id, 0)

        return sorted(records, key=when)


@dataclass(slots=True)
class _Gathered:
    published: list[Published] = field(default_factory=list)
    transactions: list[TransactionEnded] = field(default_factory=list)
    recalls: list[Recalled] = field(default_factory=list)
    before: dict[str | None, Consuming] = field(default_factory=dict)
    after: dict[str | None, Consumed] = field(default_factory=dict)


def traces_of(records: Iterable[TraceRecord]) -> list[MessageTrace]:
    """Put records together by message, in the order in which messages are first named.

    A record that was told twice, as a trace message is when its send is tried again, counts once.
    """
    gathered: dict[str, _Gathered] = {}
    for record in dict.fromkeys(records):
        if not record.message_id:
            continue
        found = gathered.setdefault(record.message_id, _Gathered())
        match record:
            case Published():
                found.published.append(record)
            case TransactionEnded():
                found.transactions.append(record)
            case Recalled():
                found.recalls.append(record)
            case Consuming():
                found.before[record.request_id] = record
            case Consumed():
                found.after[record.request_id] = record
    return [_trace(message_id, found) for message_id, found in gathered.items()]


def _trace(message_id: str, found: _Gathered) -> MessageTrace:
    calls = dict.fromkeys([*found.before, *found.after])
    handlings = [Handling(found.before.get(call), found.after.get(call)) for call in calls]
    return MessageTrace(
        message_id,
        tuple(sorted(found.published, key=lambda record: record.time_ms)),
        tuple(sorted(found.transactions, key=lambda record: record.time_ms)),
        tuple(sorted(found.recalls, key=lambda record: record.time_ms)),
        tuple(sorted(handlings, key=_began)),
    )


def _began(handling: Handling) -> int:
    if handling.before is not None:
        return handling.before.time_ms
    after = handling.after
    return after.time_ms or 0 if after is not None else 0
