"""Who answers a planner: the brokers, or a log on disk."""

from __future__ import annotations

from contextlib import closing

from rocketpipe.pipeline.options import ReadOptions
from rocketpipe.pipeline.places import Places


def open_places(options: ReadOptions) -> Places:
    """Whom the options name to be asked; whoever opens it closes it.

    Raises:
        LogNotFound: If the path is no store that this machine can read.
    """
    # Each imports much that the other does not need.
    if options.path is not None:
        from rocketpipe.pipeline.log_places import LogPlaces

        return LogPlaces(options.path, options.broker_name)
    from rocketpipe.pipeline.broker_places import BrokerPlaces

    assert options.name_servers is not None
    return BrokerPlaces(options.name_servers, options.group)


def check_places(options: ReadOptions) -> None:
    """Ask once whether what is to be read is there, before a query is built on it.

    Raises:
        UnknownTopic: If there is no such topic.
        OptionError: If an option names a queue that is not there.
        LogNotFound: If the path is no store that this machine can read.
        ConnectionLost: If no NameServer can be reached.
    """
    with closing(open_places(options)) as places:
        options.selection.queues(places)
