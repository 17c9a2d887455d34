"""The data pipeline on Spark: see docs/reference/spark.md.

Spark imports this package to find the source, so what is exported is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rocketpipe.pipeline.register import register

if TYPE_CHECKING:
    from rocketpipe.pipeline import launch
    from rocketpipe.pipeline.columns.records import DamagedRecord
    from rocketpipe.pipeline.columns.rows import ColumnError, UnreadableMessage
    from rocketpipe.pipeline.columns.write_rows import BadColumn, BadRow
    from rocketpipe.pipeline.delta import BatchConflict, BatchTable
    from rocketpipe.pipeline.formats.errors import (
        BodySchemaError,
        NotRegistered,
        RegistryAway,
        RegistryError,
    )
    from rocketpipe.pipeline.java import JavaNotFound
    from rocketpipe.pipeline.listening import QueryWatch, watch_queries
    from rocketpipe.pipeline.log.directory import LogNotFound
    from rocketpipe.pipeline.options.text import OptionError
    from rocketpipe.pipeline.planning.gaps import MessagesGone
    from rocketpipe.pipeline.planning.offset_reader import QueuesUnreachable, UnknownTopic
    from rocketpipe.pipeline.planning.offsets import UnreadableOffset
    from rocketpipe.pipeline.session import ClusterUnreachable, SparkPlace
    from rocketpipe.pipeline.writer import AppendOnly

__all__ = [
    "AppendOnly",
    "BadColumn",
    "BadRow",
    "BatchConflict",
    "BatchTable",
    "BodySchemaError",
    "ClusterUnreachable",
    "ColumnError",
    "DamagedRecord",
    "JavaNotFound",
    "LogNotFound",
    "MessagesGone",
    "NotRegistered",
    "OptionError",
    "QueryWatch",
    "QueuesUnreachable",
    "RegistryAway",
    "RegistryError",
    "SparkPlace",
    "UnknownTopic",
    "UnreadableMessage",
    "UnreadableOffset",
    "launch",
    "register",
    "watch_queries",
]

_HOME = {
    "AppendOnly": "writer",
    "BadColumn": "columns.write_rows",
    "BadRow": "columns.write_rows",
    "BatchConflict": "delta",
    "BatchTable": "delta",
    "BodySchemaError": "formats.errors",
    "ClusterUnreachable": "session",
    "ColumnError": "columns.rows",
    "DamagedRecord": "columns.records",
    "JavaNotFound": "java",
    "LogNotFound": "log.directory",
    "MessagesGone": "planning.gaps",
    "NotRegistered": "formats.errors",
    "OptionError": "options.text",
    "QueryWatch": "listening",
    "QueuesUnreachable": "planning.offset_reader",
    "RegistryAway": "formats.errors",
    "RegistryError": "formats.errors",
    "SparkPlace": "session",
    "UnknownTopic": "planning.offset_reader",
    "UnreadableMessage": "columns.rows",
    "UnreadableOffset": "planning.offsets",
    "watch_queries": "listening",
}


def __getattr__(name: str) -> object:
    if name == "launch":
        return import_module("rocketpipe.pipeline.launch")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'rocketpipe.pipeline' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rocketpipe.pipeline.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
