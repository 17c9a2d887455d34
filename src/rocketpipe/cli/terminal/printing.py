"""What commands print: one set of rows as a table for people, or as JSON or CSV for programs.

Tables are for reading and may change; the names of the keys in JSON and CSV stay. What is not known
is ``-`` in a table, null in JSON and empty in CSV: never zero. On a terminal a table fits its
width.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Self, TextIO

from rocketpipe.cli.terminal.fitting import fitted, shortened, telling

FORMATS: Final = ("table", "json", "csv")
UNKNOWN: Final = "-"

_GAP: Final = "  "
#: So many rows of a table say how it is laid out.
_LAID_OUT: Final = 1000
_STYLES: Final = {"head": "1", "bad": "31", "good": "32", "warn": "33", "dim": "2"}


class Printer:
    """Writes results in the form that was asked for."""

    def __init__(
        self, form: str = "table", out: TextIO | None = None, *, wide: bool = False
    ) -> None:
        """Take ``table``, ``json`` or ``csv``, and where to write if it is not standard output.

        With ``wide``, a table has its cells whole, whatever the width of the terminal.
        """
        self.form = form
        self._out = out or sys.stdout
        self._colours = form == "table" and has_colours(self._out)
        self._streamed = False
        self._wide = wide or not self._out.isatty()

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """The printer that was asked for by the flags of ``add_format_flags``."""
        return cls(options.output, wide=options.wide)

    def rows(
        self,
        rows: Iterable[Mapping[str, Any]],
        columns: Sequence[str],
        titles: Sequence[str] | None = None,
        *,
        none: str = "none",
    ) -> None:
        """Print rows by the keys of their columns, which CSV has even if there is no row.

        A table has ``titles`` over its columns if they are given, else the keys in capitals, and
        where there is nothing to show ``none`` says so. However many rows come, few are kept: the
        first thousand say how wide the columns of a table are.
        """
        if self.form == "json":
            self._json_array({name: row.get(name) for name in columns} for row in rows)
        elif self.form == "csv":
            self._csv(rows, columns)
        else:
            coming = iter(rows)
            first = list(islice(coming, _LAID_OUT))
            if not first and titles is None:
                self._line(self.styled(none, "dim"))
            else:
                titles = titles or [_title(name) for name in columns]
                self._table(first, coming, columns, titles)

    def record(self, record: Mapping[str, Any]) -> None:
        """Print one thing: a line for each of its facts, or one object."""
        if self.form == "json":
            self._json(record)
        elif self.form == "csv":
            self._csv([record], list(record))
        else:
            wide = max((len(_title(name)) for name in record), default=0)
            for name, value in record.items():
                label = self.styled(f"{_title(name):<{wide}}", "head")
                for line in self._lines(value, wide + len(_GAP)):
                    self._line(f"{label}{_GAP}{line}")
                    label = " " * wide

    def stream(self, row: Mapping[str, Any], columns: Sequence[str], text: str) -> None:
        """Print one row of many as it comes: ``text`` for people, a line of JSON or CSV else.

        Whoever reads has it at once, and nothing is kept for later.
        """
        if self.form == "json":
            kept = {name: row.get(name) for name in columns}
            self._line(json.dumps(kept, ensure_ascii=False, default=_plain))
        elif self.form == "csv":
            writer = csv.writer(self._out, lineterminator="\n")
            if not self._streamed:
                writer.writerow(columns)
            writer.writerow([_cell(row.get(name)) for name in columns])
        else:
            self._line(text)
        self._streamed = True
        self._out.flush()

    def line(self, text: str) -> None:
        """Print a line for people; programs that asked for JSON or CSV do not get it."""
        if self.form == "table":
            self._line(text)

    def styled(self, text: str, style: str) -> str:
        """Text in one of the styles, where there are colours."""
        return painted(text, style, colours=self._colours)

    def _json(self, value: object) -> None:
        text = json.dumps(value, indent=2, ensure_ascii=False, default=_plain)
        self._line(text)

    def _json_array(self, values: Iterable[object]) -> None:
        """An array as ``_json`` prints it, as its values come."""
        before = "[\n  "
        for value in values:
            text = json.dumps(value, indent=2, ensure_ascii=False, default=_plain)
            self._out.write(before + text.replace("\n", "\n  "))
            before = ",\n  "
        self._line("[]" if before[0] == "[" else "\n]")

    def _csv(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
        writer = csv.writer(self._out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)

    def _lines(self, value: object, margin: int) -> list[str]:
        """A value behind a margin; of pairs no more in a line than a terminal has room for."""
        text = _shown(value)
        if self._wide or not isinstance(value, Mapping):
            return [text]
        room = max(1, shutil.get_terminal_size().columns - margin)
        return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)

    def _table(
        self,
        first: Sequence[Mapping[str, Any]],
        rest: Iterable[Mapping[str, Any]],
        columns: Sequence[str],
        titles: Sequence[str],
    ) -> None:
        texts = [[_shown(row.get(name)) for name in columns] for row in first]
        right = [_are_numbers([row.get(name) for row in first]) for name in columns]
        for column in (number for number, is_number in enumerate(right) if is_number):
            if all(row[column].endswith(".0") for row in texts if row[column] != UNKNOWN):
                for row in texts:
                    row[column] = row[column].removesuffix(".0")
        if not self._wide:
            width = shutil.get_terminal_size().columns
            kept = telling(titles, texts, width, len(_GAP), UNKNOWN)
            titles, right = [titles[one] for one in kept], [right[one] for one in kept]
            columns = [columns[one] for one in kept]
            texts = [[row[one] for one in kept] for row in texts]
            texts = fitted(titles, texts, width - len(_GAP) * (len(kept) - 1), right)
        wide = [max(map(len, column)) for column in zip(titles, *texts, strict=True)]

        def aligned(cells: Sequence[str]) -> str:
            parts = [
                f"{cell:>{width}}" if to_right else f"{cell:<{width}}"
                for cell, width, to_right in zip(cells, wide, right, strict=True)
            ]
            return _GAP.join(parts).rstrip()

        self._line(self.styled(aligned(titles), "head"))
        for cells in texts:
            self._line(aligned(cells))
        for more in rest:
            cells = [_shown(more.get(name)) for name in columns]
            if not self._wide:
                cells = [
                    cell if is_number else shortened(cell, width)
                    for cell, width, is_number in zip(cells, wide, right, strict=True)
                ]
            self._line(aligned(cells))

    def _line(self, text: str) -> None:
        self._out.write(f"{text}\n")


def add_format_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``-o`` and ``--wide``, which every command has that prints results."""
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="print a table (default), JSON or CSV",
    )
    add_wide_flag(parser)


def add_wide_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--wide`` alone, for commands whose other flags are not ours."""
    parser.add_argument(
        "--wide", action="store_true", help="have tables show all, however narrow the terminal is"
    )


def has_colours(out: TextIO) -> bool:
    """Whether to write in colours: on a terminal, unless NO_COLOR says no (no-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    return out.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str | None, *, colours: bool) -> str:
    """Text in one of the styles, if there are colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colours and style and text else text


def moment(timestamp_ms: int | None) -> str | None:
    """A time as text that sorts and says its zone; None if it is not known."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(
            sep=" ", timespec="milliseconds"
        )
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def _title(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").upper()


def _shown(value: object) -> str:
    if value is None or value == "":
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_shown(each)}" for name, each in value.items()) or UNKNOWN
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ",".join(map(_shown, value)) or UNKNOWN
    return on_one_line(str(value))


def on_one_line(text: str) -> str:
    """Text of others as it may be printed: it neither breaks a table nor steers the terminal."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def _cell(value: object) -> object:
    if isinstance(value, Mapping) or (isinstance(value, Sequence) and not isinstance(value, str)):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    return value


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


def _are_numbers(values: Sequence[object]) -> bool:
    known = [value for value in values if value is not None]
    numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in known]
    return bool(numbers) and all(numbers)
