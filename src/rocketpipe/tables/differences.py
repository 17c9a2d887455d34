"""Where a table and its topic differ, of buckets that are known not to be the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketpipe.tables.comparing import EXPECTED, STORED, Bounds, Pair

#: ``missing``: the topic has it, the table has not. ``twice``: the table has it more than once.
#: ``different``: its row is not what its message says. ``extra``: the table has it, the topic has
#: not. ``gap``: missing, of what the topic has no more.
Kind = Literal["missing", "twice", "different", "extra", "gap"]

FINDING_SCHEMA: Final = (
    "kind STRING, broker STRING, queue_id INT, first BIGINT, last BIGINT, number BIGINT"
)
#: The runs that a bucket names; of more, the number.
RUNS_OF_A_BUCKET: Final = 16

_KINDS: Final[tuple[Kind, ...]] = ("missing", "twice", "different", "extra", "gap")


@dataclass(frozen=True, slots=True)
class Finding:
    """A run of offsets with which the same is wrong, ``last`` included."""

    kind: Kind
    broker: str
    queue_id: int
    first: int
    last: int

    @property
    def number(self) -> int:
        """How many offsets it has."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Differences:
    """For ``applyInArrow``: what is wrong with each bucket."""

    bounds: Mapping[Pair, Bounds]

    def __call__(self, bucket: pa.Table) -> pa.Table:
        """The findings of one bucket, of both sides' rows."""
        broker, queue_id = bucket.column("broker")[0].as_py(), bucket.column("queue_id")[0].as_py()
        held = {
            name: bucket.column(name).to_numpy()
            for name in ("side", "queue_offset", "digest", "whole", "body", "is_bad")
        }
        known = self.bounds.get((broker, queue_id))
        found = _found(held, 0 if known is None else known.first)
        rows: list[tuple[str, str, int, int | None, int | None, int]] = []
        for kind in _KINDS:
            runs = _runs(found[kind])
            rows += [(kind, broker, queue_id, a, b, b - a + 1) for a, b in runs[:RUNS_OF_A_BUCKET]]
            left = sum(b - a + 1 for a, b in runs[RUNS_OF_A_BUCKET:])
            if left:
                rows.append((kind, broker, queue_id, None, None, left))
        columns = list(zip(*rows, strict=True)) or [()] * 6
        kinds = (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int64())
        names = ["kind", "broker", "queue_id", "first", "last", "number"]
        arrays = [pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)]
        return pa.Table.from_arrays(arrays, names=names)


def joined(rows: Iterable[Mapping[str, Any]]) -> tuple[Counter[str], list[Finding]]:
    """How much is wrong of each kind, and the runs that are named, those that meet as one."""
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    named = []
    for row in rows:
        counts[row["kind"]] += row["number"]
        if row["first"] is not None:
            named.append((row["kind"], row["broker"], row["queue_id"], row["first"], row["last"]))
    for kind, broker, queue_id, first, last in sorted(named):
        before = findings[-1] if findings else None
        if (
            before is not None
            and (before.kind, before.broker, before.queue_id) == (kind, broker, queue_id)
            and before.last + 1 == first
        ):
            findings[-1] = Finding(kind, broker, queue_id, before.first, last)
        else:
            findings.append(Finding(kind, broker, queue_id, first, last))
    return counts, findings


def _found(held: Mapping[str, npt.NDArray[Any]], first: int) -> dict[Kind, npt.NDArray[np.int64]]:
    order = np.argsort(held["queue_offset"], kind="stable")
    held = {name: column[order] for name, column in held.items()}
    topic, table = held["side"] == EXPECTED, held["side"] == STORED
    expected = {name: column[topic] for name, column in held.items()}
    stored = {name: column[table] for name, column in held.items()}
    offsets, begins, counts = np.unique(
        stored["queue_offset"], return_index=True, return_counts=True
    )
    lacking = np.setdiff1d(expected["queue_offset"], offsets)
    both, mine, theirs = np.intersect1d(expected["queue_offset"], offsets, return_indices=True)
    at = begins[theirs]
    same = expected["digest"][mine] == stored["digest"][at]
    same |= expected["whole"][mine] == stored["digest"][at]
    as_other_kind = expected["is_bad"][mine] != stored["is_bad"][at]
    same |= as_other_kind & (expected["body"][mine] == stored["body"][at])
    return {
        "missing": lacking[lacking >= first],
        "twice": offsets[counts > 1],
        "different": both[~same & (counts[theirs] == 1)],
        "extra": np.setdiff1d(offsets, expected["queue_offset"]),
        "gap": lacking[lacking < first],
    }


def _runs(offsets: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    if not len(offsets):
        return []
    cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
    return [(int(run[0]), int(run[-1])) for run in np.split(offsets, cuts)]
