"""Plots as SVG, drawn by hand: bars in groups, and lines over connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from benchmarks.broker.report import short

WIDTH: Final = 860
LEFT: Final = 290
RIGHT: Final = 60
BAR: Final = 13
GAP: Final = 14
HEAD: Final = 64
#: One for each server, wherever it is drawn; readable on white and on dark.
COLOURS: Final[Mapping[str, str]] = {
    "rocketpipe-pure": "#8ab4d8",
    "rocketpipe": "#2878b5",
    "rocketpipe-2": "#14466b",
    "apache": "#d1495b",
    "redis": "#8c6bb1",
    "nats": "#3d9970",
    "kafka": "#c9822b",
    "limit": "#9a9a9a",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A group of bars for each row, a bar for each server that has a figure."""

    title: str
    unit: str
    #: By the title of a row: the figure of each server.
    groups: Mapping[str, Mapping[str, float]]
    #: How servers are called.
    names: Mapping[str, str]


def draw_bars(bars: Bars) -> str:
    """Draw bars, those of each group to a scale of their own: groups are a hundredfold apart."""
    groups = {title: figures for title, figures in bars.groups.items() if figures}
    lines: list[str] = []
    y = HEAD
    for title, figures in groups.items():
        middle = y + len(figures) * BAR / 2 + 4
        lines.append(_text(LEFT - 10, middle, title, anchor="end"))
        most = max(figures.values())
        for peer, value in figures.items():
            length = value / most * (WIDTH - LEFT - RIGHT) if most else 0.0
            lines.append(
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" '
                f'fill="{COLOURS[peer]}"/>'
            )
            lines.append(_text(LEFT + length + 5, y + 10, tidy(value), size=10))
            y += BAR
        y += GAP
    shown = [peer for peer in bars.names if any(peer in each for each in groups.values())]
    unit = f"{bars.unit}; each group to its own scale"
    return _picture(bars.title, unit, shown, bars.names, lines, y - GAP - 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A line for each server over the same places."""

    title: str
    unit: str
    places: Sequence[int]
    #: By server: the figure at each place, or None.
    lines: Mapping[str, Sequence[float | None]]
    names: Mapping[str, str]


def draw_lines(plot: Lines) -> str:
    """Draw lines over places that are equally far apart."""
    values = [value for line in plot.lines.values() for value in line if value is not None]
    most, height = max(values, default=1.0), 300
    left, step = 80, (WIDTH - 160) / max(1, len(plot.places) - 1)

    def y_of(value: float) -> float:
        return HEAD + height * (1 - value / most)

    drawn = []
    for part in range(5):
        value = most * part / 4
        y = y_of(value)
        drawn.append(
            f'<line x1="{left}" y1="{y:.1f}" x2="{WIDTH - 80}" y2="{y:.1f}" stroke="#8884"/>'
        )
        drawn.append(_text(left - 8, y + 4, tidy(value), anchor="end", size=10))
    for number, place in enumerate(plot.places):
        x = left + number * step
        drawn.append(_text(x, HEAD + height + 16, f"{place:,}", anchor="middle", size=10))
    for peer, line in plot.lines.items():
        points = [
            (left + number * step, y_of(value))
            for number, value in enumerate(line)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(
            f'<polyline points="{path}" fill="none" stroke="{COLOURS[peer]}" stroke-width="2"/>'
        )
        drawn.extend(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[peer]}"/>' for x, y in points
        )
    shown = [peer for peer in plot.names if peer in plot.lines]
    return _picture(plot.title, plot.unit, shown, plot.names, drawn, HEAD + height + 10)


def tidy(value: float) -> str:
    """A figure as short as it may be."""
    return short(value) if value >= 100 or value == 0 else f"{value:.3g}"


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _picture(
    title: str,
    unit: str,
    shown: Sequence[str],
    names: Mapping[str, str],
    drawn: Sequence[str],
    bottom: float,
) -> str:
    height = bottom + 28
    legend, x = [], 14.0
    for peer in shown:
        legend.append(f'<rect x="{x:.0f}" y="36" width="11" height="11" fill="{COLOURS[peer]}"/>')
        legend.append(_text(x + 15, 46, names[peer], size=10))
        x += 24 + 5.1 * len(names[peer])
    body = "\n".join([_text(14, 22, f"{title} ({unit})", size=14), *legend, *drawn])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'font-family="sans-serif" fill="#333">\n'
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )
