"""Decoded bodies into columns, a batch at once; what does not fit is found by parting it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The years 1 to 9999, beyond which Spark shows nothing; in microseconds since 1970.
FIRST_MOMENT_US: Final = -62_135_596_800_000_000
BEHIND_MOMENTS_US: Final = 253_402_300_800_000_000
_DAY_US: Final = 86_400_000_000
_PARTS: Final = 8

#: Makes the columns of some values; raises what Arrow raises, or ValueError, if one does not fit.
Make = Callable[[Sequence[Any]], list[pa.Array]]
#: Rows, and their columns.
Piece = tuple[Any, list[pa.Array]]


def assembled(
    values: Sequence[Any],
    rows: Sequence[int],
    count: int,
    fields: Sequence[pa.Field],
    make: Make,
    errors: dict[int, str],
    done: Sequence[Piece] = (),
) -> dict[str, pa.Array]:
    """The columns of ``count`` rows, of which ``values`` are those of ``rows``; others are NULL.

    A value of which no row can be made is noted in ``errors``. ``done`` are rows whose columns are
    made already.
    """
    pieces: list[Piece] = list(done)

    def put(some: Sequence[Any], where: Sequence[int]) -> None:
        if not some:
            return
        try:
            pieces.append((where, make(some)))
            return
        except (pa.ArrowException, ValueError, OverflowError, TypeError, KeyError) as error:
            if len(some) == 1:
                errors[where[0]] = f"a value does not fit: {str(error).splitlines()[0]}"
                return
        step = -(-len(some) // _PARTS)
        for at in range(0, len(some), step):
            put(some[at : at + step], where[at : at + step])

    put(values, rows)
    if len(pieces) == 1 and len(pieces[0][0]) == count:
        return {field.name: column for field, column in zip(fields, pieces[0][1], strict=True)}
    place = np.full(count, -1, np.int64)
    kept = np.concatenate([np.empty(0, np.int64), *(where for where, _ in pieces)])
    place[kept] = np.arange(kept.size)
    index = pa.array(place, mask=place < 0)
    return {
        field.name: pa.concat_arrays(
            [pa.nulls(0, field.type), *(columns[number] for _, columns in pieces)]
        ).take(index)
        for number, field in enumerate(fields)
    }


def check_times(column: pa.Array) -> None:
    """Refuse times that Spark cannot show, wherever they are in a column; raises ValueError."""
    kind = column.type
    if pa.types.is_struct(kind):
        for each in column.flatten():
            check_times(each)
    elif pa.types.is_map(kind):
        check_times(column.keys)
        check_times(column.items)
    elif pa.types.is_list(kind):
        check_times(column.flatten())
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        is_day = pa.types.is_date(kind)
        ends = pc.min_max(column.cast(pa.int32() if is_day else pa.int64())).as_py()
        unit = _DAY_US if is_day else 1
        if ends["min"] is not None and not (
            ends["min"] * unit >= FIRST_MOMENT_US and ends["max"] * unit < BEHIND_MOMENTS_US
        ):
            raise ValueError("a time outside the years 1 to 9999")
