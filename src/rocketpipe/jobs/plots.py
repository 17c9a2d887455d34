"""Plots as SVG texts, to stand in a page that needs nothing else.

Colours are the page's: a series has the class ``s0``, ``s1`` …, and the page says what these look
like on light and on dark paper. Only the heat map brings its own, which read on both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 960
HEIGHT: Final = 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 34
#: So many colours a page has for series.
COLOURS: Final = 5
CELL_WIDTH, CELL_HEIGHT, NAME_WIDTH = 42, 24, 64
BAR_HEIGHT: Final = 22
#: About as wide as a letter is.
_LETTER_WIDTH: Final = 7
#: Marks that would be written over each other are put on lines of their own.
MARK_WIDTH: Final = 96

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a moment, or for a while."""

    at_s: float
    label: str
    #: When it was over, if it lasted.
    until_s: float | None = None
    #: Nothing could be seen meanwhile.
    is_blind: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a plot; ``points`` are seconds and values, in order of time."""

    name: str
    points: Points
    #: Which of the page's colours; the same for the same thing in all plots.
    colour: int


def seconds(at_s: float) -> str:
    """A moment as the seconds since a run began."""
    return f"{at_s:g} s"


def lines(
    title: str,
    series: Sequence[Series],
    marks: Sequence[Mark] = (),
    *,
    moment: Callable[[float], str] = seconds,
) -> str:
    """A plot over time, with a legend, and what happened drawn through it.

    ``moment`` says what is written below the plot for a number of seconds.
    """
    ends = (mark.until_s or mark.at_s for mark in marks)
    end_s = max([1.0, *(x for one in series for x, _ in one.points), *ends])
    most = max([1.0, *(y for one in series for _, y in one.points)])
    step = nice_step(most / 4)
    top = step * math.ceil(most / step)

    def across(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / end_s

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = []
    for number in range(round(top / step) + 1):
        y = up(number * step)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(_text(LEFT - 8, y + 4, short(number * step), "end"))
    second_step = max(1, nice_step(end_s / 8))
    for number in range(int(end_s / second_step) + 1):
        x = across(number * second_step)
        anchor = "end" if x > WIDTH - RIGHT - _LETTER_WIDTH else "middle"
        parts.append(_text(x, HEIGHT - BOTTOM + 18, moment(number * second_step), anchor))
    for mark in marks:
        if mark.until_s is not None:
            x, width = across(mark.at_s), across(mark.until_s) - across(mark.at_s)
            parts.append(
                f'<rect class="outage" x="{x:.1f}" y="4" width="{max(1.0, width):.1f}" '
                f'height="{HEIGHT - BOTTOM - 4}"><title>{escape(mark.label)}, '
                f"{mark.until_s - mark.at_s:.1f} s</title></rect>"
            )
    for x, label, y in _placed(marks, across):
        parts.append(
            f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 8}" y2="{HEIGHT - BOTTOM}"/>'
        )
        near_end = x > WIDTH - MARK_WIDTH
        at, anchor = (x - 4, "end") if near_end else (x + 4, "start")
        parts.append(
            f'<text class="mark-label" x="{at:.1f}" y="{y}" text-anchor="{anchor}">'
            f"{escape(label)}</text>"
        )
    for one in series:
        for run in unbroken(one.points, marks):
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in run)
            if len(run) == 1:  # of a line of one point there is nothing to see
                ((x, y),) = run
                parts.append(
                    f'<circle class="point s{one.colour}" cx="{across(x):.1f}" '
                    f'cy="{up(y):.1f}" r="4"/>'
                )
            parts.append(f'<polyline class="line s{one.colour}" points="{path}"/>')
    legend = "".join(
        f'<span class="key"><i class="s{one.colour}"></i>{escape(one.name)}</span>'
        for one in series
    )
    return _figure(title, f'<div class="legend">{legend}</div>' + _svg(WIDTH, HEIGHT, title, parts))


def heat(title: str, values: Mapping[tuple[str, int], float], unit: str) -> str:
    """A table of coloured cells: rows by name, columns by number, each with its value."""
    names = sorted({name for name, _ in values})
    columns = sorted({column for _, column in values})
    most = max((value for value in values.values()), default=1.0)
    parts = []
    for place, column in enumerate(columns):
        x = NAME_WIDTH + place * CELL_WIDTH + CELL_WIDTH / 2
        parts.append(_text(x, 14, f"{column}:00", "middle"))
    for row, name in enumerate(names):
        y = 22 + row * CELL_HEIGHT
        parts.append(_text(NAME_WIDTH - 8, y + 16, name, "end"))
        for place, column in enumerate(columns):
            value = values.get((name, column))
            if value is None:
                continue
            fill, ink = shade(value, most)
            x = NAME_WIDTH + place * CELL_WIDTH
            parts.append(
                f'<rect x="{x + 1}" y="{y + 1}" width="{CELL_WIDTH - 2}" '
                f'height="{CELL_HEIGHT - 2}" rx="3" fill="{fill}">'
                f"<title>{escape(name)}, {column}:00: {value:.1f} {escape(unit)}</title></rect>"
                f'<text x="{x + CELL_WIDTH / 2}" y="{y + 16}" text-anchor="middle" '
                f'style="fill:{ink};pointer-events:none">{value:z.0f}</text>'
            )
    width = NAME_WIDTH + len(columns) * CELL_WIDTH
    return _figure(title, _svg(width, 26 + len(names) * CELL_HEIGHT, title, parts))


def bars(title: str, values: Mapping[str, float], *, name_width: int = NAME_WIDTH) -> str:
    """A bar for each name, the longest first, with its number."""
    most = max(values.values(), default=1) or 1
    room = WIDTH - name_width - 80
    letters = name_width // _LETTER_WIDTH
    parts = []
    for row, (name, value) in enumerate(sorted(values.items(), key=lambda item: -item[1])):
        y = row * BAR_HEIGHT
        width = max(1.0, room * value / most)
        parts.append(_text(name_width - 8, y + 15, clipped(name, letters), "end"))
        parts.append(
            f'<rect class="bar" x="{name_width}" y="{y + 3}" width="{width:.1f}" '
            f'height="{BAR_HEIGHT - 6}" rx="3"><title>{escape(name)}</title></rect>'
        )
        parts.append(
            _text(
                name_width + width + 6,
                y + 15,
                f"{value:,}" if isinstance(value, int) else f"{value:,.1f}",
                "start",
            )
        )
    return _figure(title, _svg(WIDTH, max(1, len(values)) * BAR_HEIGHT + 4, title, parts))


def unbroken(points: Points, marks: Sequence[Mark]) -> list[list[tuple[float, float]]]:
    """The points, parted where nothing could be seen in between."""
    blind = [mark.at_s for mark in marks if mark.is_blind]
    runs: list[list[tuple[float, float]]] = []
    for point in points:
        if runs and not any(runs[-1][-1][0] <= at_s < point[0] for at_s in blind):
            runs[-1].append(point)
        else:
            runs.append([point])
    return runs


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50 … that is not below."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-9)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999)


def clipped(text: str, letters: int) -> str:
    """A text that is too long without its middle."""
    if len(text) <= letters:
        return text
    end = (letters - 1) // 2
    return f"{text[: letters - 1 - end]}…{text[len(text) - end :]}"


def short(value: float) -> str:
    """A number as few characters: 12k, 1.5M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def shade(value: float, most: float) -> tuple[str, str]:
    """A cell's colour, and that of the text on it: blue is early, the redder the later."""
    if value < 0:
        return "#4f83cc", "#ffffff"
    share = min(1.0, value / most) if most > 0 else 0.0
    low, high = (255, 241, 214), (176, 36, 24)
    red, green, blue = (round(a + (b - a) * share**0.7) for a, b in zip(low, high, strict=True))
    bright = 0.299 * red + 0.587 * green + 0.114 * blue > 140
    return f"#{red:02x}{green:02x}{blue:02x}", "#1c1c1c" if bright else "#ffffff"


def _placed(
    marks: Sequence[Mark], across: Callable[[float], float]
) -> list[tuple[float, str, int]]:
    placed: list[tuple[float, str, int]] = []
    for mark in marks:
        x = across(mark.at_s)
        crowded = [y for other, _, y in placed if abs(other - x) < MARK_WIDTH]
        placed.append(
            (x, mark.label, next(y for y in (12, 26, 40, 54, 68) if y not in crowded or y == 68))
        )
    return placed


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">'
        + "".join(parts)
        + "</svg>"
    )


def _figure(title: str, content: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{content}</figure>"
