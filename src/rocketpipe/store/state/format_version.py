"""In which format a store is, so that a version that does not know it keeps its hands off.

A file ``format`` in the store's directory, of two lines:

    rocketpipe store format 1
    written by rocketpipe 0.1.0

The number grows when files change so that versions before would misread them. A store without the
file is RocketMQ's, or of a version that had none: it is taken as format 1. The file is put there,
durably, before the first byte that an older version could misread; RocketMQ leaves it alone. What
cannot be read as a mark says nothing of the log, which does the counting: it is written anew.

 1   RocketMQ's files, and what docs/explanation/store.md says is ours among them
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Final

from rocketpipe._version import __version__
from rocketpipe.store.errors import FormatUnknown
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import UNFINISHED, StoreLayout

log = logging.getLogger(__name__)

#: What this version writes. It reads this and all before it.
FORMAT: Final = 1
#: More of the file is not read.
_MOST_BYTES: Final = 256
_TEXT: Final = re.compile(
    r"rocketpipe store format ([1-9][0-9]{0,5})\n(?:written by ([ -~]{1,80})\n)?"
)


class FormatVersion:
    """The mark of one store; ``own`` is the format that is written here."""

    def __init__(self, disk: Disk, layout: StoreLayout, own: int = FORMAT) -> None:
        self._disk = disk
        self._path = layout.format
        self._own = own

    def check(self) -> int | None:
        """Give the format that a store is in; ``None`` where nothing says so.

        Raises:
            FormatUnknown: It is newer than what is known here.
            DiskError: The mark cannot be read.
        """
        if self._path.name not in self._disk.names(self._path.parent):
            return None
        with self._disk.open(self._path, writable=False) as file:
            text = file.read(_MOST_BYTES, 0).decode(errors="replace")
        read = _TEXT.match(text)
        if read is None:
            log.warning("no mark of a format, and taken for none file=%s", self._path)
            return None
        found, writer = int(read[1]), read[2] or "a version that it does not name"
        if found > self._own:
            raise FormatUnknown(
                self._path,
                f"the store is in format {found}, written by {writer}, and rocketpipe "
                f"{__version__} reads up to {self._own}; use that version or a newer one, or "
                "restore the backup that was made before the upgrade",
            )
        return found

    def put(self) -> None:
        """Have the store known as one of this format from here on; nothing to do if it is.

        Raises:
            FormatUnknown: As for `check`.
            DiskError: The mark cannot be made.
        """
        if self.check() == self._own:
            return
        unfinished = self._path.with_name(self._path.name + UNFINISHED)
        if unfinished.name in self._disk.names(unfinished.parent):
            self._disk.remove(unfinished)
        text = f"rocketpipe store format {self._own}\nwritten by rocketpipe {__version__}\n"
        with self._disk.create(unfinished) as file:
            file.write(text.encode(), 0)
            file.sync()
        self._disk.rename(unfinished, self._path)
        self._disk.sync_directory(self._path.parent)


def check_format(disk: Disk, root: Path) -> None:
    """Refuse to read a store that a newer version has changed.

    Raises:
        FormatUnknown: It is in a format that is not known here.
        DiskError: The directory cannot be read.
    """
    FormatVersion(disk, StoreLayout(root)).check()
