"""What is known of each run of a pipeline: a file for each, written while it runs.

A file is replaced whole, so that whoever reads it has one state or the next. A run whose file says
that it runs, while nobody holds the pipeline's lock, has died.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from rocketpipe.pipeline.figures import batch_of, ends_of
from rocketpipe.projects.errors import NotWritable
from rocketpipe.projects.expectations import OBSERVED
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.graph import Graph, plain

KEPT: Final = 50

_FLOW: Final = re.compile(
    r"Flow '?(?P<name>[^' ]+)'? (?:is |has )?(?P<state>[A-Z]+)(?: more than (?P<times>\d+) times)?"
)
_UNRESOLVED: Final = re.compile(
    r"Failed to resolve flow(?P<above> due to [^:]*)?: '(?P<name>[^']+)'"
)
_RUNS: Final = "runs"
_NAMED: Final = "%Y%m%dT%H%M%S"


@dataclass(slots=True)
class FlowRun:
    """What became of one flow in a run."""

    name: str
    target: str = ""
    state: str = "queued"
    #: Rows that it has read, in batches that are complete.
    rows: int = 0
    batches: int = 0
    last_batch_ms: int | None = None
    #: Rows that Spark keeps as its state, for joins and windows.
    state_rows: int = 0
    error: str | None = None
    #: Where it goes on, by topic, broker and queue.
    ends: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)


@dataclass(slots=True)
class RuleRun:
    """How the rows of one flow did by a rule."""

    flow: str
    rule: str
    action: str
    rows: int = 0
    failed: int = 0


@dataclass(slots=True)
class Run:
    """One run of a pipeline, as far as it has come."""

    run: str
    pipeline: str
    began_ms: int
    ended_ms: int | None = None
    #: running, completed, failed, stopped or died
    state: str = "running"
    error: str | None = None
    flows: dict[str, FlowRun] = field(default_factory=dict)
    rules: list[RuleRun] = field(default_factory=list)
    graph: Graph = field(default_factory=Graph)

    @classmethod
    def new(cls, pipeline: str, now_ms: int, before: Run | None = None) -> Run:
        """A run that begins, and knows how far the one before came."""
        when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime(_NAMED)
        if before is not None and before.run[: len(when)] >= when:
            # The clock was set back, and the last run is the one whose name is the last.
            past = datetime.strptime(before.run[: len(when)], _NAMED) + timedelta(seconds=1)
            when = past.strftime(_NAMED)
        run = cls(f"{when}-{secrets.token_hex(3)}", pipeline, now_ms)
        for name, flow in (before.flows if before else {}).items():
            run.flows[name] = FlowRun(name, flow.target, ends=flow.ends, state_rows=flow.state_rows)
        return run

    def take_graph(self, graph: Graph) -> None:
        """Learn which flows there are."""
        self.graph = graph
        kept = graph.kept_flows()
        self.flows = {flow.name: self._flow(flow.name) for flow in kept}
        for flow in kept:
            self.flows[flow.name].target = flow.target

    def take_message(self, text: str) -> None:
        """Learn from what Spark says of a flow."""
        first, _, rest = text.partition("\n")
        if unresolved := _UNRESOLVED.match(first):
            flow = self._flow(plain(unresolved["name"]))
            flow.state = "skipped" if unresolved["above"] else "failed"
            flow.error = None if unresolved["above"] else reason(rest or text)
            return
        found = _FLOW.match(first)
        if found is None:
            return
        flow, state = self._flow(plain(found["name"])), found["state"].lower()
        if state == "completed" and flow.error is not None:
            return  # Spark says of what failed that it completed, before or after it says so
        flow.state = state
        if state in ("starting", "queued", "running", "planning"):
            flow.error = None if state != "running" else flow.error
        elif state == "failed":
            flow.error = reason(rest or text)

    def take_progress(self, progress: Mapping[str, Any]) -> None:
        """Learn from what a query tells of a batch."""
        flow = self._flow(plain(str(progress.get("name") or "?")))
        rows = sum(int(source.get("numInputRows", 0)) for source in progress.get("sources", ()))
        if rows:
            flow.rows += rows
            flow.batches += 1
            flow.last_batch_ms = int(progress.get("batchDuration", 0))
        for source in progress.get("sources", ()):
            for queue, end in ends_of(source.get("endOffset")).items():
                brokers = flow.ends.setdefault(queue.topic, {})
                brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = end
        if (batch := batch_of(progress)) is not None:
            flow.state_rows = batch.state_rows
        for name, values in _observed(progress):
            self._count(flow.name, name, values)

    def finish(self, state: str, now_ms: int, error: str | None = None) -> None:
        """Say how it ended."""
        self.state, self.ended_ms, self.error = state, now_ms, error
        for flow in self.flows.values():
            if flow.state in ("queued", "starting", "running", "planning"):
                flow.state = "completed" if state == "completed" else "stopped"

    def to_json(self) -> dict[str, Any]:
        """As a value that can be written down."""
        return {
            "v": 1,
            **{
                name: getattr(self, name)
                for name in ("run", "pipeline", "began_ms", "ended_ms", "state", "error")
            },
            "flows": [asdict(flow) for flow in self.flows.values()],
            "rules": [asdict(rule) for rule in self.rules],
            "graph": self.graph.to_json(),
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Run:
        """What ``to_json`` gave."""
        flows = [FlowRun(**flow) for flow in value["flows"]]
        return cls(
            value["run"],
            value["pipeline"],
            value["began_ms"],
            value["ended_ms"],
            value["state"],
            value["error"],
            {flow.name: flow for flow in flows},
            [RuleRun(**rule) for rule in value["rules"]],
            Graph.of_json(value["graph"]),
        )

    def _flow(self, name: str) -> FlowRun:
        return self.flows.setdefault(name, FlowRun(name))

    def _count(self, flow: str, observed: str, values: Mapping[str, int]) -> None:
        action, _, rule = observed.partition(": ")
        for each in self.rules:
            if (each.flow, each.rule, each.action) == (flow, rule, action):
                break
        else:
            each = RuleRun(flow, rule, action)
            self.rules.append(each)
        each.rows += values.get("rows", 0)
        each.failed += values.get("failed", 0)


def reason(text: str) -> str:
    """Why something failed, in one line, out of what Spark says of it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), text)
    line = line.removeprefix("Error: ")
    for cause in re.finditer(r"terminated with exception: (.+?)(?: SQLSTATE|$)", line):
        line = cause[1]
    if found := re.search(r"(?:[\w]+\.)+\w*(?:Error|Exception|Topic|Gone|Column|Row): (.+)", line):
        line = found[1]
    return line.partition(" SQLSTATE: ")[0].strip()


def save(folder: Folder, run: Run) -> None:
    """Write down what is known of a run.

    Raises:
        NotWritable: If that cannot be.
    """
    place = folder.own / _RUNS
    unfinished = place / f".{run.run}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(run.to_json(), indent=1) + "\n")
        unfinished.replace(place / f"{run.run}.json")
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise NotWritable(place, error) from error


def last(folder: Folder) -> Run | None:
    """The latest run, if there was one."""
    for place in reversed(_files(folder)):
        try:
            return Run.of_json(json.loads(place.read_text()))
        except (ValueError, KeyError, TypeError, FileNotFoundError):
            continue
    return None


def forget_old(folder: Folder) -> None:
    """Keep the files of the latest runs only, and nothing that a killed one left half written."""
    for place in (*_files(folder)[:-KEPT], *(folder.own / _RUNS).glob(".*")):
        place.unlink(missing_ok=True)


def _files(folder: Folder) -> list[Path]:
    return sorted((folder.own / _RUNS).glob("*.json"))


def _observed(progress: Mapping[str, Any]) -> list[tuple[str, dict[str, int]]]:
    found = []
    for name, row in (progress.get("observedMetrics") or {}).items():
        if not name.startswith(OBSERVED):
            continue
        names = [each["name"] for each in row.get("schema", {}).get("fields", ())]
        values = {key: int(value or 0) for key, value in zip(names, row["values"], strict=False)}
        found.append((name.removeprefix(OBSERVED), values))
    return found
