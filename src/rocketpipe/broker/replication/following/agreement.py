"""Whether a leader's log is this replica's, and goes on where this one ends.

leader    ├─ epoch 1 ─┼─ epoch 3 ────────┤
behind    ├─ epoch 1 ─┼─ ep ┤                 goes on
apart     ├─ epoch 1 ─┼─ epoch 2 ┤            cut where epoch 2 begins, then goes on
too late  ├─ ep ┤      ·                      begins anew where the leader's log now begins
strange   ├─ epoch 2 ───┤                     refused: nothing says that any byte is the same
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketpipe.broker.replication.epochs import EpochEntry, EpochTable
from rocketpipe.broker.replication.frames import LeaderHello
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.message_store import MessageStore


class EpochStale(RocketPipeError):
    """The leader leads in an epoch that was replaced: nothing is taken from it."""

    hint = "it finds out by itself, unless its directory was emptied: then empty this one too"

    def __init__(self, epoch: int, joined: int) -> None:
        super().__init__(f"a leader of epoch {epoch}, where {joined} was joined: {self.hint}")
        self.epoch = epoch
        self.joined = joined


class CutNeeded(RocketPipeError):
    """This log went on without its leader: what is behind ``to`` is to be cut off, offline."""

    def __init__(self, to: int, end: int, *, below_confirmed: bool) -> None:
        kind = "some of it was confirmed" if below_confirmed else "none of it was confirmed"
        super().__init__(
            f"the leader's log parts from this one at {to}, which ends at {end}: {kind}"
        )
        self.to = LogOffset(to)
        #: Whether readers may have seen what would go.
        self.below_confirmed = below_confirmed


class BeginAt(RocketPipeError):
    """The leader's log begins behind the end of this one, which is to be dropped, offline."""

    def __init__(self, offset: int, end: int) -> None:
        super().__init__(f"the leader's log begins at {offset}, where this one ends at {end}")
        self.offset = LogOffset(offset)


class NothingInCommon(RocketPipeError):
    """The leader's log and this one were never one: nothing is taken in, and nothing is cut."""

    hint = (
        "is it the right group? if the leader's log is the one to keep, move this replica's "
        "directory away, and it takes all anew; if this one is, have this broker lead"
    )

    def __init__(self, reason: str) -> None:
        super().__init__(f"this log and the leader's have nothing in common: {reason}; {self.hint}")
        self.reason = reason


def agree(store: MessageStore, epochs: EpochTable, hello: LeaderHello) -> bool:
    """See that a log is the beginning of its leader's.

    False says that the leader's epochs all begin behind this log's end, so that its first bytes
    have to do so too.

    Raises:
        CutNeeded: This log went on by itself.
        NothingInCommon: It never was the beginning of that one.
        DiskError: The epochs could not be saved.
    """
    first, end = store.first_offset, store.positions.written
    if first == end:
        epochs.replace(())
        return True
    common = epochs.common_end(end, hello.entries, hello.log_end)
    if common is None:
        if not hello.entries or hello.entries[0].start <= end:
            raise NothingInCommon(
                f"this one ends at {end}, with the epochs {_listed(epochs.entries)}, and the "
                f"leader's at {hello.log_end}, with {_listed(hello.entries)}"
            )
        return False
    if common < first:
        raise NothingInCommon(f"they part at {common}, and this one begins at {first}")
    if common < end:
        seen = store.positions.acknowledged
        below = common < (store.positions.confirmed if seen is None else seen)
        raise CutNeeded(common, end, below_confirmed=below)
    epochs.cut(end)  # an epoch that had no byte may have been replaced by another
    return True


def _listed(entries: Sequence[EpochEntry]) -> str:
    """The newest of them, as the file has them."""
    return ", ".join(f"{epoch}-{start}" for epoch, start in entries[-3:]) or "none"
