"""One table of a broker, as a JSON file that RocketMQ's broker reads, and we read from it.

The text is fastjson's pretty print: a member a line, indented by tabs, without blanks, integer keys
without quotes. ``store.snapshot`` keeps the previous version and checks that the text is whole.

The text of an entry is kept until the entry is another one: of fifty thousand topics one is new
when the table is saved, and to write them all anew takes seconds, in which the loop would hardly
run. A long table is written in pieces, and the thread that does so rests between them.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from rocketpipe.model.body import Body
from rocketpipe.protocol import fastjson
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import MAX_SNAPSHOT_BYTES, Snapshot, SnapshotDamaged

T = TypeVar("T", bound=Body)

log = logging.getLogger(__name__)

_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\{\}|\[\]|[{}\[\],]|[^"{}\[\],]+')
#: So many entries are written before the thread lets the loop have its turn.
_ENTRIES_AT_ONCE: Final = 200
_REST_S: Final = 0.001
_MANY_ENTRIES: Final = 2000

_BARE_KEY: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|(?<=[{,\s])(-?[0-9]+)(?=\s*:)')


class TableFile(Generic[T]):
    """Loads and saves one kind of table; saves nothing that did not change."""

    def __init__(self, disk: Disk, path: Path, kind: type[T]) -> None:
        self.path = path
        #: Whether what was saved could not be read in this run.
        self.was_lost = False
        self._kind = kind
        self._snapshot = Snapshot(disk, path)
        #: Entries of the table's maps, by field and key: what was written, and its text.
        self._texts: dict[str, dict[Any, tuple[Any, str]]] = {}

    def load(self) -> T | None:
        """What was saved last; None if nothing ever was, or nothing of it can be read.

        In that case both versions are kept under another name, and `was_lost` is set: a broker that
        has its messages is not to stay away for want of a table.

        Raises:
            DiskError: the disk refused.
        """
        try:
            return self.read()
        except SnapshotDamaged as damage:
            self.was_lost = True
            log.error(
                "table is lost: neither version can be read, both are set aside; what the store "
                "can tell is taken from there, the rest has to be set again file=%s kept=%s "
                "reason=%s",
                self.path,
                self._snapshot.set_aside(),
                damage,
            )
            return None

    def read(self) -> T | None:
        """What was saved last; None if nothing ever was. Nothing is set aside.

        Raises:
            SnapshotDamaged: neither version can be read.
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
        return lambda: self._write(table)

    def _write(self, table: T) -> None:
        maps = {
            field.encode_name: (field.name, entries)
            for field in msgspec.structs.fields(self._kind)
            if isinstance(entries := getattr(table, field.name), dict) and entries
        }
        empty = msgspec.structs.replace(table, **{name: {} for name, _ in maps.values()})
        pieces = self._pieces(pretty(fastjson.write(empty).decode()), maps)
        if sum(len(entries) for _, entries in maps.values()) > _MANY_ENTRIES:
            self._snapshot.save_pieces(pieces, lambda _: None)
        else:
            self._snapshot.save(b"".join(pieces))

    def _pieces(self, rest: str, maps: dict[str, tuple[str, dict[Any, Any]]]) -> Iterator[bytes]:
        """The same as ``pretty`` of all of it, for the price of what is new."""
        # In the order in which they stand in the text, where they are empty yet.
        places = sorted((rest.index(f'\n\t"{wire_name}":{{}}'), wire_name) for wire_name in maps)
        at = 0
        for place, wire_name in places:
            opened = place + len(f'\n\t"{wire_name}":{{')
            yield rest[at:opened].encode()
            yield from self._entries(*maps[wire_name])
            yield b"\n\t"
            at = opened
        yield rest[at:].encode()

    def _entries(self, name: str, entries: dict[Any, Any]) -> Iterator[bytes]:
        known, comma = self._texts.get(name, {}), ""
        texts: dict[Any, tuple[Any, str]] = {}
        for some in _batches(entries.items()):
            for key, value in some:
                kept = known.get(key)
                if kept is None or not (kept[0] is value or kept[0] == value):
                    text = pretty(fastjson.write({key: value}).decode())
                    kept = (value, text[1:-2].replace("\n", "\n\t"))
                texts[key] = kept
            yield (comma + ",".join([texts[key][1] for key, _ in some])).encode()
            comma = ","
            if len(some) == _ENTRIES_AT_ONCE:
                time.sleep(_REST_S)
        self._texts[name] = texts


def _batches(entries: Iterable[tuple[Any, Any]]) -> Iterator[list[tuple[Any, Any]]]:
    left = iter(entries)
    while some := list(islice(left, _ENTRIES_AT_ONCE)):
        yield some


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
