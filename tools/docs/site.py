"""Render README.md, docs/ and their neighbours as a site of plain files: out/site/index.html.

Sphinx does the work, as docs/conf.py says. A page that is on no list, a link, an anchor or a
language of code that is not there, and a page that would ask another machine for anything, all
fail the build: the site is read where there is no network, from a disk as well as from a server.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent

#: What a browser fetches by itself. A link that a reader may click is not among it.
_FETCHED: Final = (
    re.compile(r"<(?:script|img|iframe|source|embed|video|audio)\b[^>]*\bsrc=\"([^\"]+)\""),
    re.compile(r"<link\b(?=[^>]*\brel=\"(?:stylesheet|preload|icon|shortcut icon|preconnect)\")"
               r"[^>]*\bhref=\"([^\"]+)\""),
    re.compile(r"url\(\s*[\"']?([^\"')]+)"),
    re.compile(r"@import\s+[\"']([^\"']+)"),
)  # fmt: skip


class BuildFailed(Exception):
    """The site is not as it should be; the text says why."""


def build(root: Path, site: Path) -> int:
    """Render the pages of a tree into an empty directory; gives how many there are.

    Raises:
        BuildFailed: Sphinx warned of something, or a page fetches something from elsewhere.
    """
    if site.exists():
        shutil.rmtree(site)
    doctrees = site.with_name(f"{site.name}-doctrees")
    # Everything anew, since Sphinx tells of what is wrong with a page only when it reads it.
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-n", "-W", "--keep-going", "-q", "-E"]
    done = subprocess.run(
        [*sphinx, "-c", root / "docs", "-d", doctrees, root, site],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    shutil.rmtree(doctrees, ignore_errors=True)
    if done.returncode:
        raise BuildFailed(done.stdout.strip())
    shutil.copyfile(site / "README.html", site / "index.html")
    if far := sorted(set(fetched_elsewhere(site))):
        raise BuildFailed("a page must not ask another machine:\n" + "\n".join(far))
    return len(list(site.rglob("*.html")))


def fetched_elsewhere(site: Path) -> Iterator[str]:
    """What pages and their styles fetch from other machines, with the file that does."""
    for path in site.rglob("*"):
        if path.suffix in (".html", ".css"):
            text = path.read_text(encoding="utf-8")
            for pattern in _FETCHED:
                for address in pattern.findall(text):
                    if re.match(r"(?:\w+:)?//", address):
                        yield f"{path.relative_to(site)}: {address}"


def main() -> int:
    """Render this tree, or say why it cannot be."""
    parser = argparse.ArgumentParser(description="Render the documentation.")
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "out" / "site")
    parser.add_argument("--root", type=Path, default=ROOT, help="a tree with docs/conf.py")
    options = parser.parse_args()
    try:
        pages = build(options.root, options.site)
    except BuildFailed as error:
        print(error, file=sys.stderr)
        return 1
    print(f"site: {pages} pages in {options.site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
