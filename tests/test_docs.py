"""The documentation as a whole: links lead somewhere, and languages do not drift apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
IN_CHINESE = [page for page in PAGES if ".zh" in page.suffixes]

FENCE = re.compile(r"^ *```[^\n]*\n.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its blocks of code, and without code in its lines."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(text)
    }


def links(page: Path) -> set[str]:
    return {link for link in LINK.findall(prose(page)) if "://" not in link}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: there is none"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def test_the_index_leads_to_every_page() -> None:
    reached, waiting = set(), {(DOCS / "README.md").resolve()}
    while waiting:
        page = waiting.pop()
        reached.add(page)
        found = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        waiting |= {each for each in found if each.suffix == ".md"} - reached
    lost = {page.relative_to(ROOT).as_posix() for page in DOCS.rglob("*.md")} - {
        page.relative_to(ROOT).as_posix() for page in reached
    }
    assert not lost, f"no way leads to {sorted(lost)}"


@pytest.mark.parametrize("page", IN_CHINESE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_in_chinese_has_the_code_of_the_one_in_english(page: Path) -> None:
    english = page.with_name(page.name.replace(".zh.md", ".md"))
    ours, theirs = (FENCE.findall(each.read_text(encoding="utf-8")) for each in (page, english))
    assert ours == theirs, f"copy the code of {english.name} into {page.name}"
    depths = [
        [heading.split()[0] for heading in re.findall(r"^#+ ", FENCE.sub("", text), re.MULTILINE)]
        for text in (page.read_text(encoding="utf-8"), english.read_text(encoding="utf-8"))
    ]
    assert depths[0] == depths[1], "a section is missing, or is new"
