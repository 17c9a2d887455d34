"""Tables that follow topics: see docs/how-to/tables.md.

The command loads parts of this package without Spark or Arrow, so what is exported is loaded when
it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpipe.tables.errors import (
        AlreadyFollowed,
        CheckpointMismatch,
        NewColumns,
        NotATable,
        SpecMismatch,
        TableError,
        TooManyParts,
    )
    from rocketpipe.tables.following import FollowFailed, FollowReport, follow
    from rocketpipe.tables.spec import TableSpec
    from rocketpipe.tables.table import FollowedTable

__all__ = [
    "AlreadyFollowed",
    "CheckpointMismatch",
    "FollowFailed",
    "FollowReport",
    "FollowedTable",
    "NewColumns",
    "NotATable",
    "SpecMismatch",
    "TableError",
    "TableSpec",
    "TooManyParts",
    "follow",
]

_HOME = {
    "AlreadyFollowed": "errors",
    "CheckpointMismatch": "errors",
    "FollowFailed": "following",
    "FollowReport": "following",
    "FollowedTable": "table",
    "NewColumns": "errors",
    "NotATable": "errors",
    "SpecMismatch": "errors",
    "TableError": "errors",
    "TableSpec": "spec",
    "TooManyParts": "errors",
    "follow": "following",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'rocketpipe.tables' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rocketpipe.tables.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
