"""How Sphinx renders these pages: `make docs` builds them into out/site, and any warning fails it.

The pages are plain Markdown that reads the same on a forge, so nothing in them is meant for Sphinx
alone. What it needs beyond them, the tree of the side bar, is read from the index, docs/README.md:
a section of the index is a part of the tree, and the pages it links to are in it, in its order; the
pages of a directory are below the page of the same name. A page that the index does not have is a
warning, and so is a link or an anchor that leads nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT: Final = Path(__file__).resolve().parent.parent

project = "RocketPipe"
project_copyright = "the authors of RocketPipe, Apache-2.0"
release = version = __version__

extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown"}
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "deploy/*.md"]
include_patterns += ["examples/*.md", "examples/pipelines/*.md"]
# Not even looked into: .venv alone has more files than Sphinx has patience for.
exclude_patterns = [".*", "benchmarks", "build", "demo", "dist", "out", "src", "tests", "tools"]
highlight_language = "none"  # a block that names no language has none

myst_heading_anchors = 4  # the names that GitHub gives to headings
myst_links_external_new_tab = False

html_theme = "furo"
html_title = f"RocketPipe {__version__}"
html_static_path = ["site.css", "site.js"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

_SECTION = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:(?!## ).*\n)*)", re.MULTILINE)
_PAGE = re.compile(r"\]\((?P<path>[^()#\s]+\.md)\)")


def sections() -> Iterator[tuple[str, list[str]]]:
    """The titles of the index, and the pages that each links to."""
    index = ROOT / "docs" / "README.md"
    for section in _SECTION.finditer(index.read_text(encoding="utf-8")):
        paths = dict.fromkeys(_PAGE.findall(section["body"]))
        pages = [(index.parent / path).resolve().relative_to(ROOT) for path in paths]
        yield section["title"], [page.with_suffix("").as_posix() for page in pages]


def tree(title: str, pages: list[str]) -> str:
    """A part of the tree: one that shows in the side bar alone."""
    entries = "\n".join(f"/{page}" for page in pages)
    caption = f":caption: {title}\n" if title else ""
    return f"\n```{{toctree}}\n:hidden:\n:titlesonly:\n{caption}{entries}\n```\n"


def add_the_tree(app: Sphinx, name: str, source: list[str]) -> None:
    """Say below a page which pages are below it."""
    listed = dict(sections())
    if name == root_doc:
        top = {
            title: [page for page in pages if not any(_is_below(page, p) for p in pages)]
            for title, pages in listed.items()
        }
        source[0] += tree(project, ["docs/README"]) + "".join(map(tree, top, top.values()))
    elif below := [p for pages in listed.values() for p in pages if _is_below(p, name)]:
        source[0] += tree("", below)


def _is_below(page: str, other: str) -> bool:
    return page.startswith(f"{other}/")


def say_the_language(
    app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Have browsers and screen readers know a page in Chinese for what it is."""
    if name.endswith(".zh"):
        context["language"] = "zh-CN"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_the_tree)
    app.connect("html-page-context", say_the_language)
