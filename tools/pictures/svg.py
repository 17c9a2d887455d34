"""Panes of a recording as one SVG, which moves by CSS alone and follows the reader's colours.

Every run of characters that came and went together is a text of its own, which an animation shows
from its moment on. Without animations, or for who wants no motion, all stays that was there at the
end. A pane shows as many rows as it was given, and scrolls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import Final

from tools.pictures.recording import Pane
from tools.pictures.screen import Shown

COLUMN: Final = 8
ROW: Final = 18
PADDING: Final = 14
TITLE: Final = 34
GAP: Final = 12
#: How long the end stays before all begins anew.
HOLD_MS: Final = 6000

STYLE: Final = """
text{font:13.33px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",\
monospace;white-space:pre;fill:var(--text)}
svg{--back:#fff;--bar:#f6f8fa;--edge:#d0d7de;--text:#1f2328;--dim:#656d76;--red:#cf222e;\
--green:#1a7f37;--yellow:#9a6700}
@media(prefers-color-scheme:dark){svg{--back:#0d1117;--bar:#161b22;--edge:#30363d;--text:#e6edf3;\
--dim:#8b949e;--red:#ff7b72;--green:#3fb950;--yellow:#d29922}}
.pane{fill:var(--back);stroke:var(--edge)}.bar{fill:var(--bar);stroke:var(--edge)}
.dot{fill:var(--edge)}.title{fill:var(--dim);font-size:12px;text-anchor:middle}
.bold{font-weight:700}.dim{fill:var(--dim)}.red{fill:var(--red)}.green{fill:var(--green)}
.yellow{fill:var(--yellow)}.gone{visibility:hidden}.cursor{fill:var(--dim);opacity:.6}
"""
STILL: Final = "@media(prefers-reduced-motion:reduce){*{animation:none!important}}\n"


@dataclass(frozen=True, slots=True)
class Run:
    """Characters side by side that are seen at the same times, in the same style."""

    row: int
    column: int
    text: str
    shown: Shown

    @property
    def end(self) -> int:
        """The column behind it."""
        return self.column + len(self.text)


def runs(pane: Pane, *, moving: bool) -> list[Run]:
    """All that a pane ever showed, or showed in the end, in as few pieces as may be."""
    cells = [
        (row, each.since_ms, each.until_ms or 0, each.glyph.style, column, each)
        for (row, column), seen in pane.screen.shown().items()
        for each in (seen if moving else (Shown(last.glyph, 0) for last in seen if last.stays))
    ]
    cells.sort(key=itemgetter(slice(0, 5)))
    found: list[Run] = []
    for _, together in groupby(cells, key=itemgetter(slice(0, 4))):
        alike: list[Run] = []
        for row, *_, column, shown in together:
            if alike and (blanks := column - alike[-1].end) <= 1:
                text = alike[-1].text + " " * blanks + shown.glyph.char
                alike[-1] = replace(alike[-1], text=text)
            else:
                alike.append(Run(row, column, shown.glyph.char, shown))
        found += alike
    return sorted(found, key=lambda run: (run.row, run.column))


class Drawing:
    """One picture, as it grows."""

    def __init__(self, title: str, panes: Sequence[tuple[Pane, int]], *, moving: bool) -> None:
        self._title = title
        self._panes = panes
        self._moving = moving
        self._total_ms = panes[0][0].now.ms + HOLD_MS
        self._width = max(pane.screen.columns for pane, _ in panes) * COLUMN + 2 * PADDING
        self._parts: list[str] = []
        #: Names of animations, by their frames: what moves together shares one.
        self._animations: dict[str, str] = {}

    def svg(self) -> str:
        """The whole of it."""
        top = 1
        for pane, rows in self._panes:
            top += self._pane(pane, rows, top) + GAP
        width, height = self._width + 2, top - GAP + 1
        commands = "\n".join(f"$ {each}" for pane, _ in self._panes for each in pane.commands)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">\n'
            f"<title>{escape(self._title)}</title>\n<desc>{escape(commands, quote=False)}</desc>\n"
            f"<style>{STYLE}{self._motion()}</style>\n" + "\n".join(self._parts) + "\n</svg>\n"
        )

    def _pane(self, pane: Pane, rows: int, top: int) -> int:
        """Draw a pane; gives its height."""
        height = TITLE + 2 * PADDING + rows * ROW
        middle = top + TITLE // 2
        dots = "".join(f'<circle class="dot" cx="{x}" cy="{middle}" r="5"/>' for x in (20, 38, 56))
        self._parts.append(
            f'<rect class="pane" x="1" y="{top}" width="{self._width}" height="{height}" rx="8"/>'
            f'<path class="bar" d="M1 {top + TITLE}v-{TITLE - 8}q0-8 8-8h{self._width - 16}'
            f'q8 0 8 8v{TITLE - 8}z"/>{dots}'
            f'<text class="title" x="{self._width // 2}" y="{middle + 4}">'
            f"{escape(pane.title, quote=False)}</text>"
        )
        cursor = pane.screen.cursor if self._moving else [(0, 0, 0)]
        scrolled = [(at_ms, 0, -ROW * max(0, row + 1 - rows)) for at_ms, row, _ in cursor]
        self._parts.append(
            f'<svg x="{1 + PADDING}" y="{top + TITLE + PADDING}" '
            f'width="{self._width - 2 * PADDING}" height="{rows * ROW}"><g{self._moved(scrolled)}>'
        )
        if self._moving:
            places = [(at_ms, column * COLUMN, row * ROW) for at_ms, row, column in cursor]
            moved = self._moved(places, "cursor")
            self._parts.append(f'<rect width="{COLUMN}" height="{ROW - 2}"{moved}/>')
        self._parts += map(self._text, runs(pane, moving=self._moving))
        self._parts.append("</g></svg>")
        return height

    def _text(self, run: Run) -> str:
        shown = run.shown
        names = [shown.glyph.style]
        if shown.since_ms or not shown.stays:
            frames = [(0, "hidden"), (shown.since_ms, "visible")]
            if shown.until_ms is not None:
                names.append("gone")
                frames.append((shown.until_ms, "hidden"))
            names.append(self._animation([(at, f"visibility:{how}") for at, how in frames]))
        # Columns stay columns in whatever font the reader has.
        length = f' textLength="{len(run.text) * COLUMN}"' if len(run.text) > 1 else ""
        return (
            f'<text x="{run.column * COLUMN}" y="{run.row * ROW + 13}"{length}{_class(*names)}>'
            f"{escape(run.text, quote=False)}</text>"
        )

    def _moved(self, places: Sequence[tuple[int, int, int]], *names: str) -> str:
        """The attributes of what is at a place from each moment on, and at the last in the end."""
        frames = [(at_ms, f"transform:translate({x}px,{y}px)") for at_ms, x, y in places]
        if len({place for _, place in frames}) > 1:
            names += (self._animation(frames),)
        _, x, y = places[-1]
        return _class(*names) + (f' transform="translate({x} {y})"' if x or y else "")

    def _animation(self, frames: Sequence[tuple[int, str]]) -> str:
        """The name of an animation that sets this from each moment on."""
        told, last = "", ""
        for at_ms, same in groupby(frames, key=itemgetter(0)):
            *_, (_, value) = same
            if value != last:
                percent = f"{at_ms * 100 / self._total_ms:.3f}".rstrip("0").rstrip(".")
                told += f"{percent}%{{{value}}}"
                last = value
        return self._animations.setdefault(told, f"k{len(self._animations)}")

    def _motion(self) -> str:
        if not self._animations:
            return ""
        rules = "".join(
            f"@keyframes {name}{{{frames}}}.{name}{{animation-name:{name}}}\n"
            for frames, name in self._animations.items()
        )
        timing = f"animation:{self._total_ms / 1000:g}s step-end infinite"
        return f"[class*=k]{{{timing}}}\n{rules}{STILL}"


def _class(*names: str) -> str:
    told = " ".join(filter(None, names))
    return f' class="{told}"' if told else ""


def draw(title: str, panes: Sequence[tuple[Pane, int]], *, moving: bool = True) -> str:
    """Draw panes one below the other, each with how many of its rows are seen.

    These are the last ones of each moment; or, where nothing moves, the first ones in the end.
    """
    return Drawing(title, panes, moving=moving).svg()
