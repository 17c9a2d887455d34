"""What a broker finds that joins others before it first starts: the topics and groups they have.

A topic is then at all of them from the first registration on, with as many queues at each. Not
taken over is what belongs to one broker: its own topics, places of groups, what was deleted there.
"""

from __future__ import annotations

from pathlib import Path

from rocketpipe.broker.tables.groups import GroupsFile
from rocketpipe.broker.tables.system_topics import system_topics
from rocketpipe.broker.tables.table_file import TableFile
from rocketpipe.broker.tables.topics import TopicsFile
from rocketpipe.model.body import Body
from rocketpipe.model.names import is_system_topic
from rocketpipe.model.topic import DataVersion
from rocketpipe.protocol.requests.clients import RequestModes
from rocketpipe.store.files.disk import Disk


def give_tables(disk: Disk, source: Path, target: Path, *, cluster: str, broker: str) -> None:
    """Copy topics, groups and request modes between two ``config`` directories.

    ``cluster`` and ``broker`` are the names of the one that has them. Neither broker runs.

    Raises:
        SnapshotDamaged: A table cannot be read.
        DiskError: They could not be read, or written.
    """
    own = {settings.name for settings in system_topics(cluster, broker)}
    topics = TableFile(disk, source / "topics.json", TopicsFile).read()
    if topics is not None:
        users = {
            name: settings
            for name, settings in topics.topics.items()
            if not (name in own or is_system_topic(name))
        }
        taken = TopicsFile(version=DataVersion(), topics=users)
        TableFile(disk, target / "topics.json", TopicsFile).save(taken)
    _copy(disk, source, target, "subscriptionGroup.json", GroupsFile)
    _copy(disk, source, target, "messageRequestMode.json", RequestModes)


def _copy(disk: Disk, source: Path, target: Path, name: str, kind: type[Body]) -> None:
    table = TableFile(disk, source / name, kind).read()
    if table is not None:
        TableFile(disk, target / name, kind).save(table)
