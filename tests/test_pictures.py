"""The pictures of README are of its commands, and what makes them shows what was said."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.ports import lasting_ports
from tools.pictures.__main__ import commands_of
from tools.pictures.recording import Moment, Pane
from tools.pictures.screen import NotDrawn, Screen
from tools.pictures.screenshot import NotTaken, take
from tools.pictures.svg import COLUMN, ROW, draw

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"


def pane_of(screen: Screen, total_ms: int = 1000) -> Pane:
    return Pane("a title", screen, Moment(total_ms), Path(), {}, ["a < b"])


def lines(svg: str) -> list[str]:
    """What a picture says in the end, row by row."""
    rows: dict[int, str] = {}
    for text in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        if not {"title", "gone"} & set(text.get("class", "").split()):
            row, column = int(text.get("y", 0)), int(text.get("x", 0)) // COLUMN
            rows[row] = rows.get(row, "").ljust(column) + (text.text or "")
    return [rows[row] for row in sorted(rows)]


# What is drawn


def test_a_row_that_is_written_anew_shows_each_text_in_its_time() -> None:
    screen = Screen(20)
    screen.write("\rlooking\x1b[K", 10)
    screen.write("\r\x1b[K\x1b[32mok\x1b[0m all\r\n", 30)
    seen = screen.shown()
    assert [(each.glyph.char, each.since_ms, each.until_ms) for each in seen[0, 0]] == [
        ("l", 10, 30),
        ("o", 30, None),
    ]
    assert [(each.glyph.char, each.glyph.style, each.since_ms) for each in seen[0, 1]] == [
        ("o", "", 10),
        ("k", "green", 30),
    ]
    assert [each.stays for each in seen[0, 2]] == [False]
    assert screen.cursor[-1] == (30, 1, 0)


def test_a_full_row_goes_on_in_the_next() -> None:
    screen = Screen(4)
    screen.write("sixsix", 0)
    assert [place for place in screen.shown() if place[0]] == [(1, 0), (1, 1)]


@pytest.mark.parametrize("text", ["\x1b[2J", "\x1b[35mx", "a\x07", "\tx"])
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(NotDrawn):
        Screen(80).write(text, 0)


def test_what_comes_and_goes_is_animated_and_what_stays_is_there_without() -> None:
    screen = Screen(20)
    screen.write("soon\r", 100)
    screen.write("& now\r\n", 500)
    moving, still = (draw("t", [(pane_of(screen), 3)], moving=each) for each in (True, False))
    assert lines(still) == lines(moving) == ["& now"]
    assert "@keyframes" not in still
    (gone,) = ElementTree.fromstring(moving).findall(f".//{SVG}text[@class='gone k1']")
    assert gone.text == "soon"
    assert "prefers-reduced-motion:reduce" in moving
    assert "<desc>$ a &lt; b</desc>" in moving


def test_rows_beyond_those_that_are_seen_are_scrolled_to() -> None:
    screen = Screen(20)
    for number in range(5):
        screen.write(f"{number}\r\n", 10 * number)
    svg = ElementTree.fromstring(draw("t", [(pane_of(screen), 3)]))
    (group,) = svg.iter(f"{SVG}g")
    assert group.get("transform") == f"translate(0 {-3 * ROW})"
    (cursor,) = svg.findall(f".//{SVG}g/{SVG}rect")
    assert (cursor.get("width"), cursor.get("transform")) == (
        str(COLUMN),
        f"translate(0 {5 * ROW})",
    )


# Made


def test_commands_are_those_of_the_page() -> None:
    page = "```sh\nrocketpipe serve --data d   # it runs\n```\n```sh run\none\ntwo 'a b'\n```\n"
    assert commands_of(page) == ("rocketpipe serve --data d", ["one", "two 'a b'"])


def make(page: Path, text: str) -> subprocess.CompletedProcess[str]:
    page.write_text(text)
    here = page.parent
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "tools.pictures",
            "--page",
            page,
            "--into",
            here,
            "--report",
            here / "none",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.scenario
def test_a_page_is_recorded_on_real_servers(tmp_path: Path) -> None:
    name_server, broker = (f"127.0.0.1:{port}" for port in lasting_ports(2))
    serve = f"rocketpipe serve --small-files --data data --namesrv {name_server} --broker {broker}"
    create = f"rocketpipe topic create notes --queues 1 -n {name_server}"
    done = make(tmp_path / "page.md", f"```sh\n{serve}\n```\n```sh run\n{create}\n```\n")
    assert done.returncode == 0, done.stderr
    assert "report.png stays as it is: there is no none: run make demo first" in done.stdout

    banner = lines((tmp_path / "banner.svg").read_text())
    assert banner[0] == f"$ {serve}"
    assert banner[-1] == f"ready namesrv={name_server} broker={broker}"
    recording = (tmp_path / "recording.svg").read_text()
    assert f"<desc>$ {serve}\n$ {create}</desc>" in recording
    said = {each.text for each in ElementTree.fromstring(recording).iter(f"{SVG}text")}
    assert {"rw", "MESSAGES"} <= said


def test_a_command_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    done = make(tmp_path / "page.md", "```sh\nrocketpipe serve --no-such-flag\n```\n")
    assert done.returncode == 1
    assert "rocketpipe serve --no-such-flag: it ended" in done.stderr
    assert "unrecognized arguments: --no-such-flag" in done.stderr


def test_without_a_report_or_a_browser_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotTaken, match=r"there is no none\.html: run make demo first"):
        take(tmp_path / "none.html", tmp_path / "none.png", 100, 100)
    (tmp_path / "page.html").write_text("<html>")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotTaken, match="no browser here: install one of chromium"):
        take(tmp_path / "page.html", tmp_path / "none.png", 100, 100)


# Checked in


@pytest.mark.parametrize(
    ("name", "most"), [("banner.svg", 20_000), ("recording.svg", 150_000), ("report.png", 250_000)]
)
def test_pictures_are_light_and_both_pages_show_them(name: str, most: int) -> None:
    assert (PICTURES / name).stat().st_size < most
    for page in ("README.md", "README.zh.md"):
        assert f"](docs/pictures/{name})" in (ROOT / page).read_text(encoding="utf-8")


def test_they_were_made_of_the_commands_that_readme_has() -> None:
    serve, commands = commands_of((ROOT / "README.md").read_text(encoding="utf-8"))
    for name, shown in (("banner", [serve]), ("recording", [serve, *commands])):
        svg = (PICTURES / f"{name}.svg").read_text()
        described = ElementTree.fromstring(svg).findtext(f"{SVG}desc")
        assert described == "\n".join(f"$ {each}" for each in shown), "run make pictures"
        assert not re.search(r"<script|href=|url\(|@import", svg), "GitHub shows none of that"
