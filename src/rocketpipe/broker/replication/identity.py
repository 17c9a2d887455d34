"""Which replica of its group this store is: a number that it keeps for good.

``brokerIdentity`` in the data directory has it as Apache's brokers write it:

    DefaultCluster#broker-a#2
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.whole_file import write_whole

IDENTITY_FILE: Final = "brokerIdentity"
_MOST_BYTES: Final = 4096


class WrongIdentity(RocketPipeError):
    """The data is another replica's, or another group's."""


class Identity:
    """The id that a store has in its group, once it has one."""

    def __init__(self, disk: Disk, root: Path, *, cluster: str, name: str) -> None:
        self._disk = disk
        self._path = root / IDENTITY_FILE
        self._cluster = cluster
        self._name = name

    def load(self) -> int | None:
        """The id; None where none was given yet.

        Raises:
            WrongIdentity: The file is of another group, or says nothing.
            DiskError: It cannot be read.
        """
        try:
            with self._disk.open(self._path, writable=False) as file:
                text = file.read(min(file.size(), _MOST_BYTES), 0).decode(errors="replace").strip()
        except DiskError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        cluster, _, rest = text.partition("#")
        name, _, number = rest.rpartition("#")
        if not number.isascii() or not number.isdigit() or int(number) < 1:
            raise WrongIdentity(f"{self._path} does not name a replica: {text[:80]!r}")
        if (cluster, name) != (self._cluster, self._name):
            raise WrongIdentity(
                f"{self._path} says {text[:80]!r}: this data is not of {self._name} in "
                f"{self._cluster}; give its brokerName and brokerClusterName, or another directory"
            )
        return int(number)

    def keep(self, replica_id: int) -> None:
        """Be this replica from now on, durably.

        Raises:
            DiskError: It cannot be written.
        """
        self._disk.make_directory(self._path.parent)
        text = f"{self._cluster}#{self._name}#{replica_id}"
        temporary = self._path.with_name(IDENTITY_FILE + "-temp")
        write_whole(self._disk, self._path, text.encode(), temporary)
        self._disk.sync_directory(self._path.parent)
