"""Columns of a table, made to fit the width of a terminal.

Columns that say nothing go first, and times lose their milliseconds. Then the widest column gives
way, a character at a time, down to its title or ``_LEAST`` characters: an id keeps its beginning
and its end, other text its beginning. A table that would not fit even so wraps, and then has names,
ids and addresses whole: half of them would be no help to anybody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_ELLIPSIS: Final = "…"
_LEAST: Final = 7
#: Names, ids and addresses have no more, as a rule.
_MOST: Final = 40
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.\d{3}\+00:00")


def telling(
    titles: Sequence[str], texts: Sequence[Sequence[str]], width: int, gap: int, nothing: str
) -> list[int]:
    """The columns to show: all, or if these are too wide those that say more than ``nothing``."""
    every = list(range(len(titles)))
    if not texts or sum(_widths(titles, texts)) + gap * (len(titles) - 1) <= width:
        return every
    return [one for one in every if any(row[one] != nothing for row in texts)] or every


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
    may_give = [
        not is_fixed and not _is_moment(rows, column) for column, is_fixed in enumerate(fixed)
    ]

    def least(characters: int) -> list[int]:
        return [
            min(width, max(len(title), characters)) if gives else width
            for width, title, gives in zip(widths, titles, may_give, strict=True)
        ]

    floor = least(_LEAST)
    if sum(floor) > room:
        widths = least(_MOST)
    else:
        while sum(widths) > room:
            widths[max(range(len(widths)), key=lambda at: widths[at] - floor[at])] -= 1
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
