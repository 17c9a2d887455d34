"""Tables that follow topics: see docs/how-to/tables.md.

The command loads parts of this package without Spark or Arrow, so what is exported is loaded when
it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpipe.tables.differences import Finding
    from rocketpipe.tables.errors import (
        AlreadyFollowed,
        CheckpointMismatch,
        HalfReplayed,
        NewColumns,
        NotATable,
        RebuildFailed,
        ReplayFailed,
        SpecMismatch,
        TableError,
        TooManyParts,
        VerifyFailed,
    )
    from rocketpipe.tables.following import FollowFailed, FollowReport, follow
    from rocketpipe.tables.rebuilding import RebuildReport, rebuild
    from rocketpipe.tables.replaying import ReplayReport, replay
    from rocketpipe.tables.spec import TableSpec
    from rocketpipe.tables.table import FollowedTable
    from rocketpipe.tables.verifying import VerifyReport, verify

__all__ = [
    "AlreadyFollowed",
    "CheckpointMismatch",
    "Finding",
    "FollowFailed",
    "FollowReport",
    "FollowedTable",
    "HalfReplayed",
    "NewColumns",
    "NotATable",
    "RebuildFailed",
    "RebuildReport",
    "ReplayFailed",
    "ReplayReport",
    "SpecMismatch",
    "TableError",
    "TableSpec",
    "TooManyParts",
    "VerifyFailed",
    "VerifyReport",
    "follow",
    "rebuild",
    "replay",
    "verify",
]

_HOME = {
    "AlreadyFollowed": "errors",
    "CheckpointMismatch": "errors",
    "Finding": "differences",
    "FollowFailed": "following",
    "FollowReport": "following",
    "FollowedTable": "table",
    "HalfReplayed": "errors",
    "NewColumns": "errors",
    "NotATable": "errors",
    "RebuildFailed": "errors",
    "RebuildReport": "rebuilding",
    "ReplayFailed": "errors",
    "ReplayReport": "replaying",
    "SpecMismatch": "errors",
    "TableError": "errors",
    "TableSpec": "spec",
    "TooManyParts": "errors",
    "VerifyFailed": "errors",
    "VerifyReport": "verifying",
    "follow": "following",
    "rebuild": "rebuilding",
    "replay": "replaying",
    "verify": "verifying",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'rocketpipe.tables' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rocketpipe.tables.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
