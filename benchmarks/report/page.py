"""The page of benchmarks, and the plots beside it, from the samples of one run."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.broker.report import short, table
from benchmarks.report.noise import describe
from benchmarks.report.plots import COLOURS, Bars, Lines, draw_bars, draw_lines
from benchmarks.report.rows import ROWS, Row, log_rows
from benchmarks.report.samples import Samples
from benchmarks.report.targets import ONE, TWO, verdicts

NONE: Final = "–"
#: How servers are called where room is short.
NAMES: Final = {
    "rocketpipe-pure": "RocketPipe, pure Python",
    "rocketpipe": "RocketPipe",
    "rocketpipe-2": "RocketPipe, two brokers",
    "apache": "Apache RocketMQ",
    "redis": "Redis Streams",
    "nats": "NATS JetStream",
    "kafka": "Apache Kafka",
    "limit": "bare C loop",
}
#: With more than this for others, rates tell of the others too.
BUSY_CORES: Final = 0.3
CONNECTIONS: Final = (1, 16, 64, 256, 1000)
PICTURES: Final = "pictures"


def write_page(samples: Samples, page: Path) -> None:
    """Write the page, and its plots into ``pictures`` beside it."""
    pictures = page.parent / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    for name, drawing in plots(samples).items():
        (pictures / f"benchmarks-{name}.svg").write_text(drawing)
    page.write_text("\n".join(_lines(samples)) + "\n")


def plots(samples: Samples) -> dict[str, str]:
    """Every plot by its name, as SVG; those without a figure are left out."""
    loads = [row for row in _rows(samples) if row.figure == "rate" and row.part != "log"]
    wanted = {
        row.name: row
        for row in loads
        if row.name
        in {
            "send-64x1-100",
            "send-64x1-1024",
            "send-16x16-100",
            "batch-16x1-100",
            "pull-8x1-1024",
            "pop-8x1-1024",
            "sync-64x1-1024",
        }
    }
    drawings = {}
    for name, figure, title, unit in (
        ("rates", "messages_s", "Messages a second", "higher is better"),
        ("cpu", "cpu_us", "The server's CPU time a message", "µs, lower is better"),
    ):
        groups = {row.title: _figures(samples, row, figure) for row in wanted.values()}
        if any(groups.values()):
            drawings[name] = draw_bars(Bars(title=title, unit=unit, groups=groups, names=NAMES))
    lines = {
        peer: [samples.median(f"send-{count}x1-100", peer, "messages_s") for count in CONNECTIONS]
        for peer in _peers(samples)
    }
    lines = {peer: line for peer, line in lines.items() if any(line)}
    if lines:
        drawings["connections"] = draw_lines(
            Lines(
                title="Single sends of 100 B by connections",
                unit="messages a second",
                places=CONNECTIONS,
                lines=lines,
                names=NAMES,
            )
        )
    if latencies := _latencies(samples):
        drawings["latency"] = draw_bars(
            Bars(
                title="From sending to receiving, one group",
                unit="ms, lower is better",
                groups=latencies,
                names=NAMES,
            )
        )
    return drawings


def _latencies(samples: Samples) -> dict[str, dict[str, float]]:
    row = next(row for row in ROWS if row.name == "stream-1-100")
    groups = {
        title: _figures(samples, row, figure)
        for title, figure in (("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"))
    }
    return groups if any(groups.values()) else {}


def _figures(samples: Samples, row: Row, figure: str) -> dict[str, float]:
    medians = {peer: samples.median(row.name, peer, figure) for peer in _peers(samples)}
    return {peer: value for peer, value in medians.items() if value is not None}


def _peers(samples: Samples) -> list[str]:
    return [peer for peer in COLOURS if peer in samples.entrants]


def _rows(samples: Samples) -> list[Row]:
    """The rows that were asked for, in the order of the page."""
    sizes = sorted({float(name.partition("-")[2]) for name in samples.titles if "log-" in name})
    sizes += [
        float(name.partition("-")[2])
        for name in samples.titles
        if name.startswith("recovery-") and float(name.partition("-")[2]) not in sizes
    ]
    return [row for row in (*ROWS, *log_rows(sizes)) if row.name in samples.titles]


def _lines(samples: Samples) -> Iterator[str]:
    rows = _rows(samples)
    drawings = plots(samples)
    yield "# Benchmarks"
    yield ""
    yield from _introduction(samples)
    yield ""
    yield "## Targets"
    yield ""
    yield (
        "Ratios are taken round by round, of runs that followed each other, and their median "
        "counts. Where one is missed, [Performance](explanation/performance.md) says where the "
        "time goes."
    )
    yield ""
    if (busy := _foreign(samples)) > BUSY_CORES:
        yield (
            f"**The machine was busy**: other programs had {busy:.2f} cores. Verdicts on messages "
            "a second and on times say little then; those on CPU time say more."
        )
        yield ""
    yield from table(["", "asked for", "found", ""], list(verdicts(samples)))
    yield ""
    yield "## Messages a second"
    yield ""
    yield (
        "In brackets the server's CPU time a message, in µs, of all its threads and processes; the "
        "last two columns have the ratios of both to Apache's. Bold is where we lose."
    )
    yield ""
    for name, what in (("rates", "messages a second"), ("connections", "sends by connections")):
        if name in drawings:
            yield f"![{what}]({PICTURES}/benchmarks-{name}.svg)"
            yield ""
    yield from _rates(samples, [row for row in rows if row.figure == "rate"])
    yield ""
    if "cpu" in drawings:
        yield f"![CPU time a message]({PICTURES}/benchmarks-cpu.svg)"
        yield ""
    yield "## Time to the answer"
    yield ""
    yield "Milliseconds, at the client: half of all answers came below, 99 of 100 below."
    yield ""
    yield from _answers(samples, [row for row in rows if row.figure == "rate"])
    yield ""
    yield "## From sending to receiving"
    yield ""
    yield from _streams(samples, rows, drawings)
    yield "## Beside the work"
    yield ""
    yield (
        "Seconds, and megabytes of resident memory with the pages of mapped files. Logs are of "
        "messages of 1 KB; others than these sizes are measured with `--logs 1,10,30`, where the "
        f"disk has room ({samples.options.get('disk_free_gb', '?')} GB were free here)."
    )
    yield ""
    yield from _beside(samples, rows)
    yield ""
    yield from _method(samples)


def _introduction(samples: Samples) -> Iterator[str]:
    options = samples.options
    short_run = " A quick run: good for whether it works, not for figures." * bool(options["quick"])
    yield (
        "One run of `make bench-report`: one machine, one load generator, RocketPipe beside others."
        " The command makes this page, its plots and the table of targets; nothing is typed in."
        f"{short_run}"
    )
    yield ""
    yield f"- {samples.begun}; {samples.machine}."
    pinned = (
        "The load has one core; servers that work on one core have another, the rest may use all."
        if options["pinned"]
        else "No server is kept to a core."
    )
    rounds = "One round" if options["rounds"] == 1 else f"Medians of {options['rounds']} rounds"
    yield f"- {rounds} of {options['seconds']:g} s for each row and server. {pinned}"
    yield from (f"- {line}" for line in _noise(samples))
    for peer, reason in samples.missing.items():
        yield f"- **{NAMES[peer]} was not reached**: {_one_line(reason)}"
    for peer in NAMES:
        if peer not in samples.entrants and peer not in samples.missing:
            yield f"- {NAMES[peer]} was not asked for."


def _foreign(samples: Samples) -> float:
    """How many cores other programs had, in the median of all runs."""
    each = [sample for runs in samples.runs.values() for sample in runs]
    cores = [sample["foreign_cores"] for sample in each if "foreign_cores" in sample]
    return statistics.median(cores) if cores else 0.0


def _noise(samples: Samples) -> Iterator[str]:
    yield (
        f"Noise: other programs kept {_foreign(samples):.2f} cores busy, in the median of all runs."
    )
    if samples.calibrations:
        yield describe(samples.calibrations)
    spreads = [
        spread
        for row, peer in samples.runs
        if (spread := samples.spread(row, peer, "messages_s")) is not None
    ]
    if spreads:
        yield (
            f"Spread of messages a second, half the range by the median: "
            f"{statistics.median(spreads):.0%} in the median cell, {max(spreads):.0%} in the worst."
        )


def _cell(samples: Samples, row: Row, peer: str, text: str | None) -> str:
    if text is not None:
        return text
    return "no figure" if (row.name, peer) in samples.failures else NONE


def _rates(samples: Samples, rows: Sequence[Row]) -> Iterator[str]:
    peers = _peers(samples)
    lines = []
    for row in rows:
        cells = [row.title]
        for peer in peers:
            rate = samples.median(row.name, peer, "messages_s")
            cpu = samples.median(row.name, peer, "cpu_us")
            known = rate is not None and cpu is not None
            text = f"{short(rate)} ({cpu:.1f})" if known else None  # type: ignore[arg-type]
            cells.append(_cell(samples, row, peer, text))
        cells += [_by_apache(samples, row, peer) for peer in (ONE, TWO)]
        lines.append(cells)
    head = ["", *(NAMES[peer] for peer in peers), "one broker : Apache's", "two : Apache's"]
    yield from table(head, lines)


def _by_apache(samples: Samples, row: Row, peer: str) -> str:
    rate = samples.ratio(row.name, peer, "apache", "messages_s")
    cpu = samples.ratio(row.name, peer, "apache", "cpu_us")
    if rate is None or cpu is None:
        return NONE
    more, less = f"{rate:.2f}", f"{cpu:.2f}"
    return f"{more if rate >= 1 else f'**{more}**'} ({less if cpu <= 1 else f'**{less}**'})"


def _answers(samples: Samples, rows: Sequence[Row]) -> Iterator[str]:
    peers = _peers(samples)
    lines = []
    for row in rows:
        cells = [row.title]
        for peer in peers:
            half, most = (samples.median(row.name, peer, name) for name in ("p50_ms", "p99_ms"))
            known = half is not None and most is not None
            text = f"{half:.2f} / {most:.1f}" if known else None
            cells.append(_cell(samples, row, peer, text))
        lines.append(cells)
    yield from table(["", *(NAMES[peer] for peer in peers)], lines)


def _streams(samples: Samples, rows: Sequence[Row], drawings: dict[str, str]) -> Iterator[str]:
    mine = [row for row in rows if row.figure == "latency"]
    rate = samples.stream_rate
    if not mine or rate is None:
        yield "Not measured in this run."
        yield ""
        return
    whose = (
        "half of the most single sends that Apache's broker did in this run"
        if "apache" in samples.entrants
        else "a rate of our own, for Apache's broker was not measured"
    )
    yield (
        "Messages of 100 B are sent at a fixed rate from 16 connections, and readers wait for "
        "them (long polling, `XREAD BLOCK`, a push consumer, Fetch); a time runs from when a "
        "message was due, also where it could only be written later. "
        f"{rate:,.0f} deliveries a second, {whose}: as many messages to one group, a tenth as many "
        "to ten. p50 / p99 / p99.9 in ms, in brackets the server's CPU time "
        "a delivery in µs."
    )
    yield ""
    if "latency" in drawings:
        yield f"![from sending to receiving]({PICTURES}/benchmarks-latency.svg)"
        yield ""
    peers = [peer for peer in _peers(samples) if peer != "limit"]
    lines = []
    for row in mine:
        cells = [row.title]
        for peer in peers:
            names = ("p50_ms", "p99_ms", "p999_ms", "cpu_us")
            found = [samples.median(row.name, peer, name) for name in names]
            text = None
            if None not in found:
                text = "{:.2f} / {:.1f} / {:.1f} ({:.1f})".format(*found)
            cells.append(_cell(samples, row, peer, text))
        lines.append(cells)
    yield from table(["", *(NAMES[peer] for peer in peers)], lines)
    yield ""


def _beside(samples: Samples, rows: Sequence[Row]) -> Iterator[str]:
    peers = _peers(samples)
    lines = []
    for row in rows:
        if row.figure not in ("seconds", "megabytes"):
            continue
        values = [samples.median(row.name, peer, row.figure) for peer in peers]
        texts = [None if each is None else f"{each:.3g}" for each in values]
        unit = "s" if row.figure == "seconds" else "MB"
        cells = [_cell(samples, row, peer, text) for peer, text in zip(peers, texts, strict=True)]
        lines.append([f"{row.title}, {unit}", *cells])
        if row.name.startswith("recovery-"):
            size = float(row.name.partition("-")[2])
            rates = [_recovery(samples, row, peer, size) for peer in peers]
            lines.append(["… more than an empty start, s for each GB", *rates])
    yield from table(["", *(NAMES[peer] for peer in peers)], lines)


def _recovery(samples: Samples, row: Row, peer: str, gigabytes: float) -> str:
    took = samples.median(row.name, peer, "seconds")
    empty = samples.median("ready", peer, "seconds")
    if took is None or empty is None:
        return NONE
    return f"{max(0.0, took - empty) / gigabytes:.2f}"


def _method(samples: Samples) -> Iterator[str]:
    yield "## When a message is answered for"
    yield ""
    lines = [
        [each.title, each.durability, each.sync or "it cannot wait"]
        for each in (samples.entrants[peer] for peer in _peers(samples))
    ]
    yield from table(["", "as a rule", "answered from disk"], lines)
    yield ""
    yield "## How to read it"
    yield ""
    yield from (
        "- All servers of a part run side by side and are measured in turns, row by row and round "
        "by round, by one program in C with one thread (`benchmarks/broker/loadgen`). Every answer "
        "is matched to its request and looked at; **one wrong answer, and there is no figure**.",
        "- Each server is spoken to in its own protocol: RocketMQ's remoting, Redis's `XADD`, "
        "NATS's `HPUB` with an acknowledgement from the stream, Kafka's Produce and Fetch with one "
        "record batch a request. A client that gathers messages for some milliseconds, as Kafka's "
        "own producer does, is to be compared with batches.",
        "- Redis keeps everything in memory. The bare loop keeps frames in a file and answers: no "
        "queues, no index, no checksum, and its pulls are not read from the file. It is there to "
        "show what any server has to pay for sockets and files on this machine.",
        "- A `–` is something that a server does not do, or that the generator does not ask of it: "
        "delays, transactions and POP are RocketMQ's own; ten thousand topics were not made in "
        "Kafka; Redis and NATS are only read from where messages stream.",
        "- Ratios below 1.4 mean little on a machine that others use too: look at the noise above.",
    )
    if samples.failures or samples.remarks:
        yield ""
        yield "## What went wrong"
        yield ""
        yield from (f"- {_one_line(remark)}" for remark in samples.remarks)
        for (row, peer), reason in samples.failures.items():
            yield f"- {samples.titles.get(row, row)}, {NAMES[peer]}: {_one_line(reason)}"


def _one_line(text: str) -> str:
    """What a server said, as far as it fits into a list, and no Markdown."""
    flat = " ".join(text.split()).replace("|", "/").replace("<", "‹").replace("`", "'")
    return flat if len(flat) < 300 else flat[:300] + " …"
