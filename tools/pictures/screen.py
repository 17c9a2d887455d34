"""What a terminal shows, and since when: the little of it that our commands ask for.

    text, LF, CR        as ever; a row that is full goes on in the next
    ESC [ … m           one of the styles below, or none
    ESC [ K             the rest of the row is empty

Whatever else comes is refused: a picture must not be wrong in silence. There are as many rows as
are written to; who draws them chooses which are seen.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

STYLES: Final = {
    "": "", "0": "", "1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow",
}  # fmt: skip
_PIECES: Final = re.compile(
    r"\x1b\[(?P<style>[\d;]*)m|(?P<erase>\x1b\[0?K)|(?P<control>[\r\n])|(?P<text>[^\x00-\x1f\x7f]+)"
)


class NotDrawn(Exception):
    """A command wrote what this screen does not know."""


@dataclass(frozen=True, slots=True)
class Glyph:
    """A character in its style; a blank is none."""

    char: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one place shows from a moment on, until another, if it does not stay."""

    glyph: Glyph
    since_ms: int
    until_ms: int | None = None

    @property
    def stays(self) -> bool:
        """Whether it is there at the end."""
        return self.until_ms is None


class Screen:
    """Rows and columns that remember."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._places: defaultdict[tuple[int, int], list[tuple[int, Glyph | None]]] = defaultdict(
            lambda: [(0, None)]
        )
        self._row = self._column = 0
        self._style = ""
        #: Row and column of the cursor, from each moment on.
        self.cursor: list[tuple[int, int, int]] = [(0, 0, 0)]

    def write(self, text: str, at_ms: int) -> None:
        """Take in what a command wrote at a moment, whole escape sequences at least.

        Raises:
            NotDrawn: There is something in it that this screen does not know.
        """
        done = 0
        for piece in _PIECES.finditer(text):
            if piece.start() != done:
                break
            done = piece.end()
            if piece["text"]:
                for char in piece["text"]:
                    self._put(char, at_ms)
            elif piece["control"] == "\n":
                self._row += 1
            elif piece["control"] == "\r":
                self._column = 0
            elif piece["erase"]:
                for column in range(self._column, self.columns):
                    self._set(self._row, column, None, at_ms)
            elif piece["style"] in STYLES:
                self._style = STYLES[piece["style"]]
            else:
                raise NotDrawn(f"style {piece['style']!r}: add it to {__name__}.STYLES")
        if done != len(text):
            raise NotDrawn(f"{text[done : done + 12]!r}: have {__name__} draw it")
        self.cursor.append((at_ms, self._row, self._column))

    def _put(self, char: str, at_ms: int) -> None:
        if self._column == self.columns:
            self._row, self._column = self._row + 1, 0
        glyph = None if char == " " else Glyph(char, self._style)
        self._set(self._row, self._column, glyph, at_ms)
        self._column += 1

    def _set(self, row: int, column: int, glyph: Glyph | None, at_ms: int) -> None:
        history = self._places[row, column]
        if history[-1][0] == at_ms:
            del history[-1:]  # nobody saw it
        if not history or history[-1][1] != glyph:
            history.append((at_ms, glyph))

    def shown(self) -> dict[tuple[int, int], list[Shown]]:
        """By row and column, everything that was ever seen there."""
        seen: dict[tuple[int, int], list[Shown]] = {}
        for place, history in sorted(self._places.items()):
            ends = [since for since, _ in history[1:]]
            found = [
                Shown(glyph, since, until)
                for (since, glyph), until in zip(history, [*ends, None], strict=True)
                if glyph is not None
            ]
            if found:
                seen[place] = found
        return seen
