"""Who answers a planner: the brokers, or a log on disk."""

from __future__ import annotations

from contextlib import closing

from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.planning.offset_reader import OffsetReader


def open_offsets(options: ReadOptions) -> OffsetReader:
    """Whom the options name to be asked; whoever opens it closes it.

    Raises:
        LogNotFound: If the path is no store that this machine can read.
    """
    # Each imports much that the other does not need.
    if options.path is not None:
        from rocketpipe.pipeline.log.offsets import LogOffsets

        return LogOffsets(options.path, options.broker_name)
    from rocketpipe.pipeline.broker.offsets import BrokerOffsets

    assert options.name_servers is not None
    return BrokerOffsets(options.name_servers, options.group, options.access)


def check_offsets(options: ReadOptions) -> None:
    """Ask once whether what is to be read is there, before a query is built on it.

    Raises:
        UnknownTopic: If there is no such topic.
        OptionError: If an option names a queue that is not there.
        LogNotFound: If the path is no store that this machine can read.
        ConnectionLost: If no NameServer can be reached.
    """
    with closing(open_offsets(options)) as places:
        options.selection.queues(places)
