"""The files of the pages: a fixed table that is made once, under a name that changes with them."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}
_PAGE: Final = "index.html"
#: Where the page names the folder of the others.
_PLACE: Final = b"{{assets}}"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, and the same compressed."""

    kind: str
    plain: bytes
    packed: bytes


@dataclass(frozen=True, slots=True)
class Assets:
    """The page that is opened, and all that it asks for."""

    page: bytes
    #: Of all their bytes: a file of another version has another address.
    digest: str
    table: dict[str, Asset]

    @property
    def size(self) -> int:
        """How many bytes a browser gets that has none of them, uncompressed."""
        return len(self.page) + sum(len(asset.plain) for asset in self.table.values())


@cache
def load() -> Assets:
    """Read the files that came with the package."""
    pages = resources.files("rocketpipe.console") / "pages"
    found = dict(_files(pages, ""))
    page = found.pop(_PAGE)
    digest = hashlib.sha256()
    table = {}
    for name, content in sorted(found.items()):
        kind = next((kind for ending, kind in _TYPES.items() if name.endswith(ending)), None)
        if kind is None:
            continue
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
        table[name] = Asset(kind, content, gzip.compress(content, mtime=0))
    named = digest.hexdigest()[:16]
    return Assets(page.replace(_PLACE, f"assets/{named}".encode()), named, table)


def _files(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _files(each, f"{prefix}{each.name}/")
        else:
            found.append((f"{prefix}{each.name}", each.read_bytes()))
    return found
