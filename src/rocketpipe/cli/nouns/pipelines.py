"""``rocketpipe pipeline``: folders that Spark Declarative Pipelines runs, over topics.

Each verb is typed inside the folder, or told it. See docs/how-to/pipelines.md.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from rocketpipe.cli.terminal import confirm, connecting, spark_place
from rocketpipe.cli.terminal.arguments import duration_ms, port, time_ms
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.projects import checking, folder, records, resetting, starting, svg, topics
from rocketpipe.projects.asks import Ask
from rocketpipe.projects.folder import NAME_SERVER_SETTING, Folder
from rocketpipe.projects.following import follow
from rocketpipe.projects.graph import Graph
from rocketpipe.projects.lock import held, holder
from rocketpipe.projects.records import Run
from rocketpipe.projects.running import run_recorded, workshop
from rocketpipe.projects.table_files import count_rows
from rocketpipe.projects.telling import batches_told

EXAMPLES: Final = """\
examples:
  rocketpipe pipeline init shop
  rocketpipe pipeline check
  rocketpipe pipeline run
  rocketpipe pipeline run --follow
  rocketpipe pipeline show
  rocketpipe pipeline graph pipeline.svg
  rocketpipe pipeline backfill orders --from '2h ago'
  rocketpipe pipeline reset --yes
"""
_FLOWS: Final = (
    *("flow", "target", "state", "rows_read", "rows_total", "batches", "batch_ms", "state_rows"),
    *("lag", "group", "error"),
)
_RULES: Final = ("flow", "rule", "action", "rows", "failed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    init = verbs.add_local("init", "make a folder with a working example and its test", _init)
    init.add_argument("name", metavar="NAME", help="what the pipeline and its folder are called")

    check = verbs.add_local("check", "find what is wrong before anything runs", _check)
    run = verbs.add_local("run", "run the pipeline over what its topics have", _run)
    run.add_argument(
        "--follow", action="store_true", help="run again whenever topics have grown, until Ctrl-C"
    )
    run.add_argument(
        "--every",
        metavar="DURATION",
        type=duration_ms,
        default=5_000,
        help="how often --follow looks whether topics have grown (5s)",
    )
    run.add_argument(
        "--timeout",
        metavar="DURATION",
        type=duration_ms,
        help="end a run that takes longer; the next goes on where it was",
    )
    run.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=port,
        help="rows, batch times, lag and state of each flow for Prometheus, on this machine",
    )
    show = verbs.add_local("show", "show flows, the last run, rows, lag and rules", _show)
    graph = verbs.add_local("graph", "draw topics, tables and sinks, with row counts", _graph)
    graph.add_argument(
        "file", metavar="FILE", nargs="?", help="where the SVG goes; else to standard output"
    )
    reset = verbs.add_local("reset", "forget how far it is, and remove its tables", _reset)
    confirm.add_flags(reset)
    backfill = verbs.add_local("backfill", "have a flow read again from a time on", _backfill)
    backfill.add_argument("flow", metavar="FLOW", help="a flow that reads topics")
    backfill.add_argument(
        "--from",
        dest="begin",
        metavar="TIME",
        required=True,
        help="ISO 8601, milliseconds since 1970, or an age such as '2h ago'",
    )
    confirm.add_flags(backfill, dry_run=False)
    for verb in (check, run, show, graph, backfill):
        connecting.add_flags(verb)
    for verb in (check, run, backfill):
        spark_place.add_flags(verb)
    for verb in (check, run, show, graph, reset, backfill):
        verb.add_argument(
            "--folder", metavar="DIR", type=Path, help="the pipeline's folder; else where one is"
        )


def _init(options: argparse.Namespace) -> int:
    root = starting.make(options.name, Path.cwd())
    sys.stdout.write(
        f"made {root}\n"
        f"  cd {options.name}\n"
        "  rocketpipe topic create orders\n"
        "  rocketpipe pipeline run      then `show`, `graph`, `run --follow`\n"
        "  pytest                       its test, on a broker of its own\n"
    )
    return 0


def _check(options: argparse.Namespace) -> int:
    ours = folder.find(options.folder or Path.cwd())
    printer = Printer.of(options)
    problems = checking.quick(ours)
    notes: list[str] = []
    if not problems:
        servers = _name_servers(ours, options)
        with held(ours), workshop(ours, spark_place.spark_place(options), servers) as shop:
            graph, found = checking.dry_run(shop, Run.new(ours.name, _now_ms()))

        async def compare() -> tuple[list[str], list[str]]:
            async with Admin(servers) as admin:
                return await checking.against_cluster(admin, graph, found)

        problems, notes = asyncio.run(compare())
    rows = [{"kind": "problem", "text": text} for text in problems]
    rows += [{"kind": "note", "text": text} for text in notes]
    if printer.form != "table":
        printer.rows(rows, ["kind", "text"])
    for row in rows:
        style = "bad" if row["kind"] == "problem" else "warn"
        printer.line(f"{printer.styled(row['kind'], style)}: {row['text']}")
    if not problems:
        printer.line(f"pipeline {ours.name} can run")
    return 1 if problems else 0


def _run(options: argparse.Namespace) -> int:
    ours = folder.find(options.folder or Path.cwd())
    if options.follow and options.timeout is not None:
        raise ConfigError("--timeout", "is for a single run: leave out --follow")
    return _carry_out(ours, options)


def _carry_out(
    ours: Folder, options: argparse.Namespace, first: Callable[[], None] | None = None
) -> int:
    """Run a pipeline, and do something first, as soon as nobody else can run it."""
    came: list[int] = []

    def heard(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, heard)  # a service is stopped in order too
    try:
        return _carried_out(ours, options, first)
    except KeyboardInterrupt:
        if not came:
            raise
        return 128 + came[0]
    finally:
        signal.signal(signal.SIGTERM, before)


def _carried_out(
    ours: Folder, options: argparse.Namespace, first: Callable[[], None] | None
) -> int:
    _refuse(checking.quick(ours))
    servers = _name_servers(ours, options)
    printer = Printer.of(options)
    place = spark_place.spark_place(options)
    ticker = _Ticker()

    def say(text: str) -> None:
        ticker.clear()
        sys.stderr.write(f"{text}\n")

    metrics = getattr(options, "metrics_port", None)
    with held(ours), batches_told(ours, metrics, say) as teller:
        if first is not None:
            first()
        if getattr(options, "follow", False):

            def done(run: Run) -> None:
                ticker.clear()
                teller.ended(run)
                printer.stream(_summary(run), list(_summary(run)), _line(run))

            every_s = options.every / 1000
            follow(
                *(ours, place, servers),
                every_s=every_s,
                watch=ticker,
                done=done,
                say=say,
                heard=teller.heard,
            )
        with workshop(ours, place, servers, ticker, teller.heard) as shop:
            limit = getattr(options, "timeout", None)
            run = run_recorded(shop, Ask(), limit_s=None if limit is None else limit / 1000)
        ticker.clear()
    _print_flows(printer, ours, run, {})
    printer.line(_line(run))
    return 0 if run.state == "completed" else 1


def _show(options: argparse.Namespace) -> int:
    ours = folder.find(options.folder or Path.cwd())
    printer = Printer.of(options)
    run = _last(ours)
    ends: topics.Ends = {}
    trouble = None
    try:
        ends = asyncio.run(_ends(_name_servers(ours, options), run.graph))
    except RocketPipeError as error:
        trouble = str(error)
    lags = {flow.name: topics.lag_of(run.graph, flow, run, ends) for flow in run.graph.kept_flows()}
    if printer.form == "json":
        printer.record(
            {**_summary(run), "flows": _flow_rows(ours, run, lags), "rules": _rule_rows(run)}
        )
        return 0
    if printer.form == "table":
        printer.record(
            {
                "pipeline": run.pipeline,
                "last run": f"{run.run}, {run.state}",
                "began": moment(run.began_ms),
                "took": _took(run),
                **({"error": run.error} if run.error else {}),
            }
        )
        printer.line("")
    _print_flows(printer, ours, run, lags)
    if trouble:
        sys.stderr.write(f"lag is not known: {trouble}\n")
    return 0


def _graph(options: argparse.Namespace) -> int:
    ours = folder.find(options.folder or Path.cwd())
    run = _last(ours)
    messages: dict[str, int] = {}
    try:
        ends = asyncio.run(_ends(_name_servers(ours, options), run.graph, sinks=True))
    except RocketPipeError as error:
        sys.stderr.write(f"messages of topics are not known: {error}\n")
    else:
        for (topic, _, _), (least, end) in ends.items():
            messages[topic] = messages.get(topic, 0) + end - least
    failed = frozenset(flow.target for flow in run.flows.values() if flow.error)
    picture = svg.draw(run.graph, _totals(ours, run.graph), messages, failed)
    if options.file is None:
        sys.stdout.write(picture)
    else:
        Path(options.file).write_text(picture, encoding="utf-8")
    return 0


def _reset(options: argparse.Namespace) -> int:
    ours = folder.find(options.folder or Path.cwd())
    places = resetting.what_goes(ours)
    if not places:
        sys.stdout.write(f"pipeline {ours.name} has not run: there is nothing to reset\n")
        return 0
    for place in places:
        sys.stdout.write(f"{place}\n")
    if options.dry_run:
        sys.stdout.write("nothing was removed: leave out --dry-run to do it\n")
        return 0
    confirm.confirm(
        f"this removes all tables and checkpoints of pipeline {ours.name}; the next run reads its "
        "topics from the start, and sends to its sinks again",
        options,
    )
    with held(ours, of_any_name=True):
        resetting.reset(ours)
    return 0


def _backfill(options: argparse.Namespace) -> int:
    ours = folder.find(options.folder or Path.cwd())
    try:
        begin_ms = time_ms(options.begin, _now_ms())
    except ValueError as error:
        raise ConfigError("--from", str(error)) from error
    run = _last(ours)
    flow = resetting.find_flow(run.graph, options.flow)
    confirm.confirm(resetting.consequence(run.graph, flow, moment(begin_ms)), options)
    return _carry_out(ours, options, lambda: resetting.backfill(ours, run.graph, flow, begin_ms))


def _last(ours: Folder) -> Run:
    run = records.last(ours)
    if run is None:
        raise RocketPipeError(
            f"pipeline {ours.name} has not run yet: `rocketpipe pipeline run` runs it"
        )
    if run.state == "running" and holder(ours) is None:
        run.finish("died", run.began_ms, "it was killed: run it again, it goes on where it was")
        run.ended_ms = None
    return run


def _refuse(problems: list[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more: `rocketpipe pipeline check`)"
        raise RocketPipeError(problems[0] + (more if len(problems) > 1 else ""))


def _name_servers(ours: Folder, options: argparse.Namespace) -> str:
    return connecting.name_servers(options.namesrv or ours.configuration.get(NAME_SERVER_SETTING))


async def _ends(servers: str, graph: Graph, *, sinks: bool = False) -> topics.Ends:
    wanted = graph.source_topics() + (graph.sink_topics() if sinks else [])
    async with Admin(servers) as admin:
        return await topics.ends_of(admin, wanted)


def _totals(ours: Folder, graph: Graph) -> dict[str, int | None]:
    return {name: count_rows(ours.table_files(name)) for name in graph.datasets}


def _print_flows(printer: Printer, ours: Folder, run: Run, lags: Mapping[str, int | None]) -> None:
    printer.rows(_flow_rows(ours, run, lags), _FLOWS)
    if run.rules and printer.form == "table":
        printer.line("")
        printer.rows(_rule_rows(run), _RULES)


def _flow_rows(ours: Folder, run: Run, lags: Mapping[str, int | None]) -> list[dict[str, Any]]:
    totals = _totals(ours, run.graph)
    found = []
    for name, flow in run.flows.items():
        made = run.graph.flows.get(name)
        groups = run.graph.groups_of(made) if made else ()
        found.append(
            {
                "flow": name,
                "target": flow.target,
                "state": flow.state,
                "rows_read": flow.rows if flow.batches else None,
                "rows_total": totals.get(flow.target),
                "batches": flow.batches or None,
                "batch_ms": flow.last_batch_ms,
                "state_rows": flow.state_rows or None,
                "lag": lags.get(name),
                "group": ", ".join(groups) or None,
                "error": flow.error,
            }
        )
    return found


def _rule_rows(run: Run) -> list[dict[str, Any]]:
    return [{key: getattr(rule, key) for key in _RULES} for rule in run.rules]


def _summary(run: Run) -> dict[str, Any]:
    return {
        "pipeline": run.pipeline,
        "run": run.run,
        "state": run.state,
        "began": moment(run.began_ms),
        "ended": moment(run.ended_ms),
        "rows": sum(flow.rows for flow in run.flows.values()),
        "error": run.error,
    }


def _line(run: Run) -> str:
    rows = sum(flow.rows for flow in run.flows.values())
    text = f"run {run.run} {run.state}: {len(run.flows)} flows, {rows:,} rows read, {_took(run)}"
    return f"{text}: {run.error}" if run.error else text


def _took(run: Run) -> str | None:
    return None if run.ended_ms is None else f"{(run.ended_ms - run.began_ms) / 1000:.1f} s"


class _Ticker:
    """A line on the terminal that says how far a run is."""

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, run: Run) -> None:
        if not sys.stderr.isatty():
            return
        at_work = [flow.name for flow in run.flows.values() if flow.state == "running"]
        rows = sum(flow.rows for flow in run.flows.values())
        text = f"{rows:,} rows read; {', '.join(at_work) or 'starting'}"[:76]
        if text != self._shown:
            self._shown = text
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = ""


def _now_ms() -> int:
    return SystemClock().now_ms()
