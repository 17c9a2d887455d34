"""The documentation as a whole: links lead somewhere, languages do not drift apart, and what one is
told to type, to set or to watch is there.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from rocketpipe.cli.main import NOUNS, parser_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]
IN_CHINESE = [page for page in PAGES if ".zh" in page.suffixes]

FENCE = re.compile(r"^ *```[^\n]*\n.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
BLOCK = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(rocketpipe(?:-mqadmin)? [^`\n]+)`")
METRIC = re.compile(r"\brocket(?:mq|pipe)_[a-z]+_[a-z_]+\b")
COMMENT = re.compile(r"(?:^|[ \t]+)#[^\n]*", re.MULTILINE)
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
    ours, theirs = (
        [COMMENT.sub("", code) for code in FENCE.findall(each.read_text(encoding="utf-8"))]
        for each in (page, english)
    )
    assert ours == theirs, f"copy the code of {english.name} into {page.name}"
    comments = COMMENT.findall("".join(FENCE.findall(page.read_text(encoding="utf-8"))))
    assert [each for each in comments if each.isascii()] == [], "a comment is in English"
    depths = [
        [heading.split()[0] for heading in re.findall(r"^#+ ", FENCE.sub("", text), re.MULTILINE)]
        for text in (page.read_text(encoding="utf-8"), english.read_text(encoding="utf-8"))
    ]
    assert depths[0] == depths[1], "a section is missing, or is new"


# What a reader is told to type

WIDEST = 103  # characters of code that fit beside the contents of a page on a laptop


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_fits_a_page_without_scrolling(page: Path) -> None:
    lines = "".join(blocks(page, "sh", "python", "console", "yaml", "ini", "sql")).splitlines()
    assert [line for line in lines if len(line) > WIDEST] == []


MADE = re.compile(r"(?:--data|-m venv) ([a-z]+)\b(?!/)")


def test_what_the_first_steps_make_is_no_part_of_the_repository() -> None:
    first = [ROOT / "README.md", *DOCS.glob("tutorial*.md")]
    made = {name for page in first for name in MADE.findall(page.read_text(encoding="utf-8"))}
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert made
    assert {name for name in made if f"/{name}/" not in ignored} == set()


FROM_AN_INDEX = re.compile(r"pip install [^\n`#]*?(?<![\w./-])rocketpipe(?![\w-])")


def test_nothing_is_installed_from_an_index_that_does_not_have_it() -> None:
    told = [*PAGES, *(ROOT / "examples").rglob("*.py"), *(ROOT / "src").rglob("*.py")]
    for path in told:
        found = FROM_AN_INDEX.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.relative_to(ROOT)}: {found and found[0]!r}"


def blocks(page: Path, *languages: str) -> Iterator[str]:
    for info, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if info.split()[:1] in [[language] for language in languages]:
            yield body


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command of ours that a page shows, in blocks and in its lines."""
    lines = [line for body in blocks(page, "sh") for line in body.replace("\\\n", "").splitlines()]
    if page.parent.name != "reference":  # those are printed from the parsers
        lines += INLINE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    for line in lines:
        line = line.replace("rocketpipe-mqadmin ", "rocketpipe mqadmin ")
        found = re.match(r"(?:sudo )?(?:[\w/.]*/)?rocketpipe (?P<words>.+)", line.strip())
        if found and not re.search(r"[…|]|\bNOUN\b", found["words"].partition("#")[0]):
            yield shlex.split(found["words"], comments=True)


@cache
def parser_for(*, administers: bool) -> argparse.ArgumentParser:
    """All commands; ``broker`` is a server, or a noun with verbs behind it."""
    return parser_of([noun.name for noun in NOUNS], running=administers)


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_verbs_and_options_that_there_are(page: Path) -> None:
    for words in commands(page):
        administers = words[0] == "broker" and words[1:] != [] and words[1][0] != "-"
        parser = parser_for(administers=administers)
        left = list(words)
        while (verbs := verbs_of(parser)) and left and not left[0].startswith("-"):
            assert left[0] in verbs, f"rocketpipe {shlex.join(words)}: no {left[0]}"
            parser = verbs[left.pop(0)]
        for word in left:
            if re.match(r"--?[a-z]", word):
                option = word.partition("=")[0]
                assert option in parser._option_string_actions, (
                    f"rocketpipe {shlex.join(words)}: no {option}"
                )


def test_metrics_that_pages_name_are_measured() -> None:
    measured = set(METRIC.findall((DOCS / "reference" / "metrics.md").read_text()))
    assert len(measured) > 20
    for page in PAGES:
        named = set(METRIC.findall(page.read_text(encoding="utf-8")))
        assert named <= measured, f"{page.name}: {sorted(named - measured)}"


def test_alerts_are_rules_of_what_is_measured() -> None:
    text = (ROOT / "deploy" / "prometheus" / "rocketpipe-rules.yaml").read_text()
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    assert len(rules) >= 15
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "annotations"}
        assert rule["annotations"]["summary"]
    shown = [
        rule
        for body in blocks(DOCS / "how-to" / "monitor.md", "yaml")
        for group in yaml.safe_load(body).get("groups", ())
        for rule in group["rules"]
    ]
    assert shown
    assert all(rule in rules for rule in shown)


def test_panels_and_alerts_ask_for_what_is_measured() -> None:
    measured = set(METRIC.findall((DOCS / "reference" / "metrics.md").read_text()))
    for name in ("prometheus/rocketpipe-rules.yaml", "grafana/rocketpipe.json"):
        named = {
            re.sub("_(bucket|sum|count)$", "", each)
            for each in METRIC.findall((ROOT / "deploy" / name).read_text())
        }
        assert len(named) > 10
        assert named <= measured, f"{name}: {sorted(named - measured)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_that_pages_show_are_known(page: Path, tmp_path: Path) -> None:
    for body in blocks(page, "toml"):
        path = tmp_path / "settings.toml"
        path.write_text(body)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "rocketpipe.cli.main",
                "config",
                "check",
                "--for",
                "serve",
                path,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert ", 0 warnings" in done.stdout, done.stdout
