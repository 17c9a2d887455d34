"""Columns of a table, made to fit the width of a terminal.

Times lose their milliseconds first. Then the widest column gives way, a character at a time, down
to its title or ``_LEAST`` characters: an id keeps its beginning and its end, other text its
beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_ELLIPSIS: Final = "…"
_LEAST: Final = 7
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.\d{3}\+00:00")


def fitted(
    titles: Sequence[str], texts: Sequence[Sequence[str]], room: int, fixed: Sequence[bool]
) -> list[list[str]]:
    """The cells of a table whose columns take no more than ``room``, if that can be.

    ``fixed`` says of which columns nothing may be left out: half a number is another number.
    """
    rows = [list(row) for row in texts]
    if sum(_widths(titles, rows)) > room:
        rows = [[_MOMENT.sub(r"\1Z", cell) for cell in row] for row in rows]
    widths = _widths(titles, rows)
    least = [
        width if is_fixed or _is_moment(rows, column) else min(width, max(len(title), _LEAST))
        for column, (width, title, is_fixed) in enumerate(zip(widths, titles, fixed, strict=True))
    ]
    while sum(widths) > room:
        wide = max(range(len(widths)), key=lambda column: widths[column] - least[column])
        if widths[wide] == least[wide]:
            break  # it cannot be: the terminal has to wrap
        widths[wide] -= 1
    return [
        [shortened(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows
    ]


def shortened(text: str, width: int) -> str:
    """Text in so many characters: the middle is left out of what has no blanks, else the end."""
    if len(text) <= width:
        return text
    if " " in text:
        return text[: width - 1] + _ELLIPSIS
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + _ELLIPSIS + text[len(text) - tail :]


def _widths(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(titles, *rows, strict=True)]


def _is_moment(rows: Sequence[Sequence[str]], column: int) -> bool:
    return any(re.fullmatch(r"\d{4}-\d\d-\d\d \S+Z", row[column]) for row in rows)
