"""What a person reads at the end on the terminal: figures, the proof, and what to try next."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from demo.pipelining import FOLDER
from demo.proof import Proof, plural
from demo.servers import Servers
from demo.takeover import Takeover

if TYPE_CHECKING:
    from demo.play import Run


def summary(run: Run, proof: Proof, setup_s: float) -> str:
    """Figures, what happened, the proof."""
    lines = ["", *(f"  {line}" for line in figures(run, setup_s)), "", *proof_lines(proof)]
    return "\n".join(lines)


def figures(run: Run, setup_s: float) -> list[str]:
    """What the run was like, a line each."""
    small, calls, replay = run.evidence.small, run.evidence.calls, run.replay
    lines = [
        f"set up in {setup_s:.0f} s, run in {run.total_s:.0f} s; "
        f"the last flight was sent after {run.sent_s:.0f} s",
        f"senders lost the broker {plural(replay.interruptions, 'time')} and found "
        f"{plural(replay.found_stored, 'unanswered flight')} stored; none was sent again",
        f"the pipeline made {plural(run.pipeline.passes, 'whole run')}; "
        f"flights came in {run.pipeline.batches:,} batches",
        f"the last boarding call came {calls.latest_ms / 1000:,.1f} s after its moment",
    ]
    if small.guest_name and small.guests.found:
        lines.append(
            f"{small.guest_name} received {small.guests.found:,} flights as a member of the group"
        )
    if small.trouble or not small.guests.found:
        lines.append(f"the guest received nothing more: {small.trouble or 'it came too late'}")
    if (takeover := run.evidence.takeover) is not None:
        lines.append(takeover_line(takeover))
    lines += [f"on the way: {told}" for told in run.pipeline.history]
    return lines


def headline(run: Run, proof: Proof) -> str:
    """What the run comes to, in a line."""
    if not proof.holds:
        return "Not all of it holds"
    kills = len(run.evidence.killed)
    number = {1: "One kill", 2: "Two kills", 3: "Three kills"}.get(kills, f"{kills} kills")
    return f"{number}, and not one flight lost"


def takeover_line(takeover: Takeover) -> str:
    """What became of the cluster whose leader was killed."""
    if takeover.trouble:
        return f"no leader of several copies was killed: {takeover.trouble}"
    return (
        f"{takeover.killed} led three copies and was killed; {takeover.leads} took over, and sends "
        f"waited {takeover.pause_s:.1f} s: acknowledged {len(takeover.acknowledged):,}, lost "
        f"{takeover.lost:,}"
    )


def proof_lines(proof: Proof) -> list[str]:
    """The proof as a table."""
    width = max((len(stage.name) for stage in proof.stages), default=10)
    head = f"  {'':<{width + 2}}{'expected':>10}{'found':>10}{'not yet':>9}{'lost':>7}{'twice':>7}"
    lines = [head]
    for stage in proof.stages:
        counts = (
            f"{stage.expected:>10,}{stage.found:>10,}{stage.not_yet:>9,}"
            f"{stage.lost:>7,}{stage.twice:>7,}"
        )
        lines.append(f"  {_sign(stage.holds)} {stage.name:<{width}}{counts}")
    lines.append("")
    for check in proof.checks:
        detail = f" ({check.detail})" if check.detail else ""
        lines.append(f"  {_sign(check.holds)} {check.what}{detail}")
    notes = [f"    {stage.name}: {stage.note}" for stage in proof.stages if stage.note]
    return [*lines, "", *notes]


def commands(place: Path, servers: Servers, *, keep: bool) -> list[tuple[str, str]]:
    """Three commands to try next, and what each does."""
    rocketpipe = shlex.join([sys.executable, "-m", "rocketpipe.cli.main"])
    show = f"cd {shlex.quote(str(place / FOLDER))} && {rocketpipe} pipeline show"
    # Double quotes inside, so that the shell's single ones need no escapes.
    spark = (
        "from rocketpipe.pipeline.launch import prepare; prepare(); "
        "from pyspark.sql import SparkSession; s = SparkSession.builder.getOrCreate(); "
        f's.read.format("rocketpipe").option("path", {json.dumps(str(servers.store))})'
        '.option("subscribe", "flights").load().groupBy("tags").count().show()'
    )
    python = shlex.quote(sys.executable)
    serve = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--small-files"]
    serve += ["--data", str(servers.store)]
    last = (
        ("stop the servers that were kept", f"kill {servers.pid}")
        if keep
        else ("serve the same data again", shlex.join(serve))
    )
    return [
        ("look at the pipeline", show),
        ("query the topic in Spark, straight from the log", f"{python} -c {shlex.quote(spark)}"),
        last,
    ]


def next_steps(page: Path, servers: Servers, *, keep: bool) -> str:
    """Where the report is, and what to try next."""
    lines = ["", f"The report: {page.as_uri()}"]
    if keep:
        lines.append(f"The servers still run: NameServer {servers.name_server}")
    lines.append("Try next:")
    for number, (what, command) in enumerate(commands(page.parent, servers, keep=keep), start=1):
        lines += [f"  {number}. {what}:", f"     {command}"]
    return "\n".join(lines)


def _sign(holds: bool) -> str:
    return "✓" if holds else "✗"
