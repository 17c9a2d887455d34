"""One table of a broker, as a JSON file that RocketMQ's broker reads, and we read from it.

The text is fastjson's pretty print: a member a line, indented by tabs, without blanks, integer keys
without quotes. ``store.snapshot`` keeps the previous version and checks that the text is whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from rocketpipe.model.body import Body
from rocketpipe.protocol import fastjson
from rocketpipe.store.disk import Disk
from rocketpipe.store.snapshot import MAX_SNAPSHOT_BYTES, Snapshot

T = TypeVar("T", bound=Body)

_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\{\}|\[\]|[{}\[\],]|[^"{}\[\],]+')
_BARE_KEY: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|(?<=[{,\s])(-?[0-9]+)(?=\s*:)')


class TableFile(Generic[T]):
    """Loads and saves one kind of table; saves nothing that did not change."""

    def __init__(self, disk: Disk, path: Path, kind: type[T]) -> None:
        self.path = path
        self._kind = kind
        self._snapshot = Snapshot(disk, path)

    def load(self) -> T | None:
        """What was saved last; None if nothing ever was.

        Raises:
            SnapshotDamaged: neither the file nor the version before it can be read.
            DiskError: the disk refused.
        """
        return self._snapshot.load(self._parse)

    def _parse(self, text: bytes) -> T:
        # A broker's tables may hold more than a request body ever does, so the plain reader goes
        # first: it has no bound of its own, and the file's length is one.
        try:
            return msgspec.json.decode(_BARE_KEY.sub(_quoted, text), type=self._kind)
        except msgspec.MsgspecError:
            return fastjson.read(text, self._kind, max_bytes=MAX_SNAPSHOT_BYTES)

    def save(self, table: T) -> None:
        """Put the table in the place of the last one; it survives a power cut then.

        Raises:
            DiskError: it could not be written; the last one is still there.
        """
        self.writer(table)()

    @property
    def crc(self) -> int | None:
        """The checksum of the text that was loaded or saved last."""
        return self._snapshot.crc

    def save_pieces(self, pieces: Iterable[bytes], about_to: Callable[[int], None]) -> None:
        """Save a text that is made piece by piece; see ``Snapshot.save_pieces``.

        Raises:
            DiskError: As by `save`.
        """
        self._snapshot.save_pieces(pieces, about_to)

    def writer(self, table: T) -> Callable[[], None]:
        """Give the writing of this table as a call of its own, for a thread that may wait."""
        return lambda: self._snapshot.save(pretty(fastjson.write(table).decode()).encode())


def pretty(text: str) -> str:
    """Lay out compact JSON, or fastjson's dialect of it, as fastjson's pretty print does."""
    pieces: list[str] = []
    line = "\n"
    for part in _PART.findall(text):
        if part in {"{", "["}:
            line += "\t"
            pieces.append(part + line)
        elif part in {"}", "]"}:
            line = line[:-1]
            pieces.append(line + part)
        elif part == ",":
            pieces.append(part + line)
        else:
            pieces.append(part)
    return "".join(pieces)


def _quoted(match: re.Match[bytes]) -> bytes:
    return match[0] if match[1] is None else b'"%b"' % match[1]
