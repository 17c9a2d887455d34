"""Texts with a NUL in them, which not every table can keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

NUL: Final = "\0"
#: What stands for it in the texts of a bad row, where a table cannot keep it.
NO_NUL: Final = "\N{REPLACEMENT CHARACTER}"


def rows_with(columns: Mapping[str, Any], mark: str = NUL) -> dict[int, str]:
    """The rows that have a NUL, or a mark, and the first column where they have it."""
    found: dict[int, str] = {}
    for name, column in columns.items():
        for row in _rows(column, mark):
            found.setdefault(row, name)
    return found


def _rows(column: Any, mark: str) -> list[int]:
    kind = column.type
    types = pa.types
    if types.is_string(kind):
        return list(pc.indices_nonzero(pc.match_substring(column, mark)).to_pylist())
    if types.is_list(kind) and types.is_string(kind.value_type):
        has = pc.match_substring(pc.list_flatten(column), mark)
        return sorted(set(pc.list_parent_indices(column).filter(has).to_pylist()))
    if types.is_nested(kind):
        return [row for row, value in enumerate(column.to_pylist()) if _has(value, mark)]
    return []


def _has(value: Any, mark: str) -> bool:
    if isinstance(value, str):
        return mark in value
    if isinstance(value, Mapping):
        return any(_has(each, mark) for each in value.values())
    return isinstance(value, list | tuple) and any(_has(each, mark) for each in value)
