"""Texts with a NUL in them, which not every table can keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_NUL: Final = "\0"


def rows_with_nul(columns: Mapping[str, Any]) -> dict[int, str]:
    """The rows that have one, and the first column where they have it."""
    found: dict[int, str] = {}
    for name, column in columns.items():
        for row in _rows(column):
            found.setdefault(row, name)
    return found


def _rows(column: Any) -> list[int]:
    kind = column.type
    types = pa.types
    if types.is_string(kind):
        return list(pc.indices_nonzero(pc.match_substring(column, _NUL)).to_pylist())
    if types.is_list(kind) and types.is_string(kind.value_type):
        has = pc.match_substring(pc.list_flatten(column), _NUL)
        return sorted(set(pc.list_parent_indices(column).filter(has).to_pylist()))
    if types.is_nested(kind):
        return [row for row, value in enumerate(column.to_pylist()) if _has(value)]
    return []


def _has(value: Any) -> bool:
    if isinstance(value, str):
        return _NUL in value
    if isinstance(value, Mapping):
        return any(_has(each) for each in value.values())
    return isinstance(value, list | tuple) and any(_has(each) for each in value)
