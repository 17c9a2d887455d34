"""A replica's log, mended from another one: a leader that runs, or a directory that nobody uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rocketpipe.auth.credentials import Credentials
from rocketpipe.broker.replication.epochs import EpochTable
from rocketpipe.broker.replication.following.log_reader import LeaderLog, common_end
from rocketpipe.clock import Clock
from rocketpipe.remoting.tls_settings import TlsSettings
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.state.checkpoint import read_checkpoint
from rocketpipe.store.upkeep.mending import DirectorySource, MendReport, mend


def mend_from_leader(
    config: StoreConfig,
    disk: Disk,
    clock: Clock,
    address: str,
    around: int | None = None,
    *,
    tls: TlsSettings | None = None,
    proves_to: Callable[[str], Credentials | None] = lambda _: None,
) -> MendReport:
    """Mend a log that nobody uses with that of the leader at an HA address; it may take long.

    ``around`` is where damage is known to be; see `mend`. ``proves_to`` gives by what a leader at
    a host is told who asks.

    Raises:
        LeaderUnread: The leader cannot be read.
        NotMended: Its log is another, or has not what is missing here.
        StoreError: A file here cannot be read or written, or the store is in use.
    """
    epochs, end = _known(disk, config.root)
    leader = LeaderLog(address, epochs, end, tls, proves_to)
    try:
        return mend(config, disk, clock, leader, around=around)
    finally:
        leader.close()


def mend_from_directory(config: StoreConfig, disk: Disk, clock: Clock, other: Path) -> MendReport:
    """Mend a log with the one in another directory, which nobody uses either.

    Raises:
        NotMended: That log is another, or has not what is missing here.
        StoreError: A file cannot be read or written, or the store is in use.
    """
    epochs, end = _known(disk, config.root)
    theirs, their_end = _known(disk, other)
    source = DirectorySource(disk, other, common_end(epochs, end, theirs.entries, their_end))
    try:
        return mend(config, disk, clock, source)
    finally:
        source.close()


def _known(disk: Disk, root: Path) -> tuple[EpochTable, int]:
    """The epochs of a store, and where its log was durable."""
    layout = StoreLayout(root)
    epochs = EpochTable(disk, layout.epochs)
    epochs.load()
    own = read_checkpoint(disk, layout.checkpoint).own
    return epochs, own.confirmed if own is not None else 0
