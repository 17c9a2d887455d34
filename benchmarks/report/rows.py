"""What the page has a line for: loads by part, and what is measured in other ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Final, Literal

from benchmarks.broker.scenarios import Scenario

#: Servers are started for each part anew: what one leaves behind does not reach the next.
Part = Literal["start", "loads", "sync", "topics", "transactions", "log"]
PARTS: Final[Sequence[Part]] = ("start", "loads", "sync", "topics", "transactions", "log")
#: How a line is told: messages a second and CPU time, times to the answer, seconds, megabytes.
Figure = Literal["rate", "latency", "seconds", "megabytes"]

TOPICS: Final = 10_000
SMALL, LARGE, LARGEST = 100, 1024, 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line."""

    name: str
    title: str
    part: Part
    figure: Figure = "rate"
    #: None for what no load is run for.
    load: Scenario | None = None


def _size(body_bytes: int) -> str:
    return f"{body_bytes} B" if body_bytes < LARGE else f"{body_bytes >> 10} KB"


def _sends(connections: int, window: int, body_bytes: int) -> Row:
    load = Scenario(kind="send", connections=connections, window=window, body_bytes=body_bytes)
    way = "one at a time" if window == 1 else f"{window} on their way"
    title = f"sends, {connections:,} connections, {way}, {_size(body_bytes)}"
    return Row(
        name=load.name,
        title=title.replace("1 connections", "1 connection"),
        part="loads",
        load=load,
    )


def _load(title: str, part: Part, load: Scenario, figure: Figure = "rate") -> Row:
    return Row(name=load.name, title=title, part=part, figure=figure, load=load)


def _reading(body_bytes: int, title: str) -> Row:
    load = Scenario(kind="pull", connections=8, window=1, body_bytes=body_bytes)
    return _load(title, "loads", load)


def _popping(kind: Literal["pop", "popbatch"], title: str) -> Row:
    load = Scenario(kind=kind, connections=8, window=1, body_bytes=LARGE)
    return _load(title, "loads", load)


def _putting_off(kind: Literal["delay", "timer"], title: str) -> Row:
    load = Scenario(kind=kind, connections=64, window=1, body_bytes=SMALL)
    return _load(title, "loads", load)


def _stream(groups: int, title: str) -> Row:
    load = Scenario(kind="stream", connections=16, window=100, body_bytes=SMALL, groups=groups)
    return _load(title, "loads", load, "latency")


def _sync(connections: int) -> Row:
    load = Scenario(kind="send", connections=connections, window=1, body_bytes=LARGE, sync=True)
    who = "1 connection" if connections == 1 else f"{connections} connections"
    return _load(f"sends, {who}, answered from disk, 1 KB", "sync", load)


def _topics(count: int) -> Row:
    load = Scenario(kind="send", connections=64, window=1, body_bytes=SMALL, topics=count)
    what = "topic" if count == 1 else "topics"
    title = f"sends, 64 connections, 100 B, {count:,} {what} of {TOPICS:,}"
    return Row(name=f"topics-{count}", title=title, part="topics", load=load)


ROWS: Final[Sequence[Row]] = (
    Row(name="ready", title="from start to a first stored message", part="start", figure="seconds"),
    Row(name="idle", title="memory when idle", part="start", figure="megabytes"),
    *(_sends(connections, 1, body) for body in (SMALL, LARGE) for connections in (1, 16, 64, 256)),
    _sends(1000, 1, SMALL),
    *(_sends(16, 16, body) for body in (SMALL, LARGE)),
    *(
        _load(
            f"batches of 32, 16 connections, {_size(body)}",
            "loads",
            Scenario(kind="batch", connections=16, window=1, body_bytes=body),
        )
        for body in (SMALL, LARGE)
    ),
    _reading(SMALL, "pulls of 32, 8 connections, 100 B"),
    _reading(LARGE, "pulls of 32, 8 connections, 1 KB"),
    _reading(LARGEST, "pulls of 256 KB, 8 connections, 8 KB"),
    _popping("pop", "POP: 32 received, each acknowledged, 1 KB"),
    _popping("popbatch", "POP: 32 received, acknowledged together, 1 KB"),
    _putting_off("delay", "delayed sends, by level, 64 connections, 100 B"),
    _putting_off("timer", "delayed sends, by seconds, 64 connections, 100 B"),
    _stream(1, "from sending to receiving, one group"),
    _stream(10, "from sending to receiving, ten groups"),
    _sync(1),
    _sync(64),
    *(_topics(count) for count in (1, 100, TOPICS)),
    _load(
        "transactions: half message and commit, 16 connections, 100 B",
        "transactions",
        Scenario(kind="transaction", connections=16, window=1, body_bytes=SMALL),
    ),
)


def log_rows(gigabytes: Iterable[float]) -> list[Row]:
    """The lines about logs of these sizes."""
    rows = []
    for size in gigabytes:
        load = Scenario(kind="send", connections=64, window=1, body_bytes=LARGE)
        rows.append(
            Row(
                name=f"log-{size:g}",
                title=f"sends, 64 connections, 1 KB, with a log of {size:g} GB",
                part="log",
                load=load,
            )
        )
        rows.append(
            Row(
                name=f"recovery-{size:g}",
                title=f"kill -9 with a log of {size:g} GB, then ready after",
                part="log",
                figure="seconds",
            )
        )
    return rows


class NoSuchRow(ValueError):
    """A pattern that no row fits; the message lists those there are."""

    def __init__(self, pattern: str, rows: Iterable[Row]) -> None:
        names = ", ".join(row.name for row in rows)
        super().__init__(f"no row is called {pattern!r}; there are {names}")


def choose(patterns: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """The rows that patterns like ``send-64x1-*`` name, or all.

    Raises:
        NoSuchRow: If a pattern fits none.
    """
    for pattern in patterns:
        if not any(fnmatch(row.name, pattern) for row in rows):
            raise NoSuchRow(pattern, rows)
    fits = [row for row in rows if any(fnmatch(row.name, pattern) for pattern in patterns)]
    return fits if patterns else list(rows)
