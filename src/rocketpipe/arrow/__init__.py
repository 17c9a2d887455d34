"""Topics as Arrow, for DuckDB, Polars and pandas: see docs/how-to/arrow.md.

It needs the extra ``arrow`` (pyarrow and numpy), and neither Spark nor Java. What is exported is
loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rocketpipe.errors import RocketPipeError

if TYPE_CHECKING:
    from rocketpipe.arrow.topic_scan import TopicScan, scan
    from rocketpipe.pipeline.columns.rows import ColumnError, UnreadableMessage
    from rocketpipe.pipeline.log.directory import LogNotFound
    from rocketpipe.pipeline.options.text import OptionError
    from rocketpipe.pipeline.planning.gaps import MessagesGone
    from rocketpipe.pipeline.planning.offset_reader import QueuesUnreachable, UnknownTopic

__all__ = [
    "ArrowMissing",
    "ColumnError",
    "LogNotFound",
    "MessagesGone",
    "OptionError",
    "QueuesUnreachable",
    "TopicScan",
    "UnknownTopic",
    "UnreadableMessage",
    "scan",
]

_HOME = {
    "ColumnError": "pipeline.columns.rows",
    "LogNotFound": "pipeline.log.directory",
    "MessagesGone": "pipeline.planning.gaps",
    "OptionError": "pipeline.options.text",
    "QueuesUnreachable": "pipeline.planning.offset_reader",
    "TopicScan": "arrow.topic_scan",
    "UnknownTopic": "pipeline.planning.offset_reader",
    "UnreadableMessage": "pipeline.columns.rows",
    "scan": "arrow.topic_scan",
}


class ArrowMissing(RocketPipeError, ImportError):
    """What reads topics as Arrow is not installed."""


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'rocketpipe.arrow' has no attribute {name!r}")
    try:
        value = getattr(import_module(f"rocketpipe.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("numpy", "pyarrow"):
            raise
        raise ArrowMissing(
            f"no {error.name} here: install the extra rocketpipe[arrow] (pip install pyarrow numpy)"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
