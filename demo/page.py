"""The report as one HTML file that needs no other: figures, proof, and plots of the run."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from demo.proof import Proof, letters_by
from demo.rejecting import ATTEMPTS
from demo.report import figures, headline, takeover_line
from demo.takeover import Takeover
from demo.watching import Watch
from rocketpipe.jobs import plots
from rocketpipe.jobs.page import COLOURS, STYLE
from rocketpipe.jobs.plots import Mark, Series

if TYPE_CHECKING:
    import pyarrow as pa

    from demo.play import Run

#: Fewer flights than these in a year say nothing about an hour of the day.
FEWEST_FLIGHTS: Final = 5
#: So many looks a rate is taken over.
AVERAGED: Final = 3
READING: Final = (
    "Expected is what the file of flights says, and where somebody was killed what had been "
    "acknowledged by then. Not yet: acknowledged, and not visible at that moment; all of it was "
    "later. Twice: how many came more than once. Consumers are promised each message at least "
    "once; the topic and the tables have each exactly once."
)
#: So long a piece of the time around a takeover is counted by itself.
SLICE_S: Final = 0.25

#: What the tables of this page have that others have not: their second column is text.
TABLES: Final = """
th:nth-child(2), td:nth-child(2) { text-align: left; min-width: 11rem; }
@media (max-width: 36rem) { th:nth-child(2), td:nth-child(2) { min-width: 6.5rem; } }
"""


def write_page(path: Path, run: Run, proof: Proof, setup_s: float) -> None:
    """Write the report of a run."""
    path.write_text(page(run, proof, setup_s), encoding="utf-8")


def page(run: Run, proof: Proof, setup_s: float) -> str:
    """The whole page as text."""
    evidence, watch = run.evidence, run.watch
    delays, zone = delays_by_hour(evidence.windows)
    sections = [
        f"<h1{'' if proof.holds else ' class=bad'}>{headline(run, proof)}</h1>",
        f'<p class="lead">{_lead(run, proof)}</p>',
        _tiles(run, proof),
        "<h2>The proof</h2>",
        _proof_table(proof),
        f'<p class="quiet">{READING}</p>',
        _checks(proof),
        "<h2>What happened</h2>",
        _list(figures(run, setup_s)),
        "<h2>Throughput and lag</h2>",
        plots.lines("Messages a second, each over three seconds", throughput(watch), watch.marks),
        plots.lines(
            "Lag: messages that each group has still to read, or to pass over",
            lags(watch),
            watch.marks,
        ),
        "<h2>Retries and dead letters</h2>",
        plots.lines("Rejections and dead letters, so far", rejections(run), watch.marks),
        plots.bars("Dead letters by carrier: flights cancelled", letters_by(evidence, "carrier")),
        _list(
            f"{count:,} × {reason or 'no reason given'}"
            for reason, count in letters_by(evidence, "reason").items()
        ),
        *_takeover(evidence.takeover),
        "<h2>Delay by carrier and hour</h2>",
        plots.heat(
            f"Mean delay at departure in minutes, by scheduled hour ({zone})", delays, "min"
        ),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>RocketPipe demo</title><style>{STYLE}{COLOURS}{TABLES}</style></head><body>"
        + "\n".join(sections)
        + "</body></html>\n"
    )


# What the plots show


def throughput(watch: Watch) -> list[Series]:
    """How many messages a second came into the topic, and how many each group got."""
    samples, marks = watch.samples, watch.marks
    series = [Series("stored", rates([(s.at_s, s.stored) for s in samples], marks), 0)]
    for colour, group in enumerate(samples[0].lags if samples else (), start=1):
        read = [(sample.at_s, sample.read[group]) for sample in samples]
        series.append(Series(f"read by {group}", rates(read, marks), colour))
    return series


def lags(watch: Watch) -> list[Series]:
    """How far behind each group was."""
    return [
        Series(group, [(sample.at_s, sample.lags[group]) for sample in watch.samples], colour)
        for colour, group in enumerate(watch.samples[0].lags if watch.samples else (), start=1)
    ]


def acknowledgements(takeover: Takeover) -> Series:
    """How many sends a second were acknowledged, over a change of leaders."""
    slices = Counter(int(at / SLICE_S) for at, _ in takeover.acknowledged)
    last = max(slices, default=0)
    points = [((n + 0.5) * SLICE_S, slices[n] / SLICE_S) for n in range(last + 1)]
    return Series("acknowledged", points, 0)


def rejections(run: Run) -> list[Series]:
    """How many rejections there had been, by attempt, and how many dead letters."""
    watch = run.watch
    by_attempt: list[list[float]] = [[] for _ in range(ATTEMPTS)]
    for at, attempt in run.evidence.departures.moments:
        by_attempt[attempt].append(watch.since_start_s(at))
    series = [
        Series(
            f"attempt {number}",
            [(sample.at_s, bisect_right(moments, sample.at_s)) for sample in watch.samples],
            number,
        )
        for number, moments in enumerate(by_attempt, start=1)
    ]
    dead = [(sample.at_s, float(sample.dead_letters)) for sample in watch.samples]
    return [*series, Series("dead letters", dead, 0)]


def delays_by_hour(windows: pa.Table) -> tuple[Mapping[tuple[str, int], float], str]:
    """The mean delay of each carrier in each hour of the day, and where that hour is."""
    zone, name = _new_york()
    minutes: defaultdict[tuple[str, int], int] = defaultdict(int)
    flights: defaultdict[tuple[str, int], int] = defaultdict(int)
    for row in windows.to_pylist():
        hour: datetime = row["hour"].astimezone(zone)
        minutes[row["carrier"], hour.hour] += row["delay_minutes"]
        flights[row["carrier"], hour.hour] += row["departed"]
    means = {key: minutes[key] / count for key, count in flights.items() if count >= FEWEST_FLIGHTS}
    return means, name


def _new_york() -> tuple[tzinfo, str]:
    try:
        return ZoneInfo("America/New_York"), "New York"
    except ZoneInfoNotFoundError:
        return timezone(timedelta(hours=-5)), "UTC−5"


def rates(
    counts: Sequence[tuple[float, float]], marks: Sequence[Mark]
) -> list[tuple[float, float]]:
    """What was counted, as so much a second over the last looks, as far as there was a sight.

    Groups say how far they are about once a second, so that two looks alone would tell little.
    """
    found = []
    for run in plots.unbroken(counts, marks):
        if len(run) == 1:
            continue
        rated = []
        for place, (at, count) in enumerate(run[1:], start=1):
            since, before = run[max(0, place - AVERAGED)]
            rated.append((at, max(0.0, (count - before) / (at - since))))
        found += [(run[0][0], rated[0][1]), *rated]  # the first look begins what the second ends
    return found


# What is written


def _takeover(takeover: Takeover | None) -> list[str]:
    if takeover is None:
        return []
    told = f"<p>{escape(takeover_line(takeover))}</p>"
    if takeover.trouble:
        return ["<h2>A leader is killed</h2>", told]
    marks = [Mark(takeover.pause[0], f"{takeover.killed} killed", takeover.pause[1])]
    plot = plots.lines("Acknowledged sends a second", [acknowledgements(takeover)], marks)
    return ["<h2>A leader is killed</h2>", told, plot]


def _lead(run: Run, proof: Proof) -> str:
    evidence = run.evidence
    kills = {
        "broker": "The broker was killed with SIGKILL in the middle of it, and Spark read on from "
        "its files.",
        "Spark": "So were the pipeline and its Spark, within a batch.",
        "leader": "So was the leader of three copies: another took over in "
        f"{evidence.takeover.pause_s if evidence.takeover else 0:.1f} s.",
    }
    end = "" if proof.holds else " The rows marked ✗ say what does not hold."
    return (
        f"{run.replay.total:,} flights out of New York, of 2013, through a RocketMQ-compatible "
        "broker in Python, its consumers and Spark. "
        + " ".join(kills[who] for who in dict.fromkeys(evidence.killed))
        + end
    )


def _tiles(run: Run, proof: Proof) -> str:
    killed = run.evidence.killed
    tiles = [
        ("", f"{run.replay.total:,}", "sent", f"in {run.sent_s:.0f} s, kills included"),
        ("kill", f"{len(killed)}", "kills", ", ".join(killed) or "none"),
        (_tone(proof.lost), f"{proof.lost:,}", "lost", "of all that was acknowledged"),
        (_tone(proof.twice), f"{proof.twice:,}", "twice", "in the topic and the tables"),
    ]
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile {tone}"><b>{number}</b><span>{what}</span>'
            f"<small>{escape(detail)}</small></div>"
            for tone, number, what, detail in tiles
        )
        + "</div>"
    )


def _tone(faults: int) -> str:
    return "bad" if faults else "good"


def _proof_table(proof: Proof) -> str:
    rows = "".join(
        f"<tr><td>{_sign(stage.holds)}</td><td>{escape(stage.name)}{_note(stage.note)}</td>"
        + "".join(
            f"<td{'' if count else ' class=none'}>{count:,}</td>"
            for count in (stage.expected, stage.found, stage.not_yet, stage.lost, stage.twice)
        )
        + "</tr>"
        for stage in proof.stages
    )
    return (
        '<div class="wide"><table><tr><th></th><th>stage</th><th>expected</th><th>found</th>'
        f"<th>not yet</th><th>lost</th><th>twice</th></tr>{rows}</table></div>"
    )


def _note(note: str) -> str:
    return f"<small>{escape(note)}</small>" if note else ""


def _checks(proof: Proof) -> str:
    items = "".join(
        f"<li>{_sign(check.holds)} {escape(check.what)}"
        + (f' <span class="quiet">({escape(check.detail)})</span>' if check.detail else "")
        + "</li>"
        for check in proof.checks
    )
    return f'<ul class="checks">{items}</ul>'


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _sign(holds: bool) -> str:
    return '<span class="good">✓</span>' if holds else '<span class="bad">✗</span>'
