"""The parts of a report that put servers under load: started side by side, measured in turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.broker.generator import Generator, RunFailed, Sample
from benchmarks.broker.peer import Peer
from benchmarks.broker.report import short
from benchmarks.broker.running import Pinning, Server, ServerFailed, running
from benchmarks.broker.scenarios import Kind, Scenario
from benchmarks.report.noise import calibrate
from benchmarks.report.rows import TOPICS, Part, Row
from benchmarks.report.samples import Figures, Samples

#: Where Apache was not measured, streams run at this rate.
DEFAULT_RATE: Final = 5000.0
#: Each kind of load is tried at least this long before anything is measured.
LEAST_WARMUP_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long and how often."""

    seconds: float
    #: Of each run, before it counts.
    before_s: float
    rounds: int
    #: How much of a server's own warm-up it gets.
    warmup: float


@dataclass(slots=True, kw_only=True)
class Bench:
    """What all parts use: where samples go, what loads servers, how long."""

    samples: Samples
    path: Path
    generator: Generator
    pinning: Pinning
    pace: Pace

    def keep(self, row: Row, peer: Peer, figures: Figures, told: str) -> None:
        """Take a run's figures down, at once."""
        self.samples.add(row.name, peer.name, figures)
        self.samples.save(self.path)
        print(f"  {row.name:<18} {peer.name:<16} {told}", flush=True)

    def fail(self, row: Row, peer: Peer, reason: object) -> None:
        """Take down that there is no figure, and why."""
        self.samples.failures[row.name, peer.name] = str(reason)
        self.samples.save(self.path)
        print(f"  {row.name:<18} {peer.name:<16} no figure: {reason}", flush=True)

    def remark(self, text: str) -> None:
        """Take down what else a reader should know."""
        self.samples.remarks.append(text)
        print(f"  {text}", flush=True)

    def rounds(self, what: str) -> Iterator[int]:
        """Count the rounds, and see between them how the machine does."""
        for number in range(self.pace.rounds):
            print(f"{what}: round {number + 1} of {self.pace.rounds}", flush=True)
            if number == 0:
                self.samples.calibrations.append(calibrate(f"{what}, before round 1"))
            yield number
            self.samples.calibrations.append(calibrate(f"{what}, after round {number + 1}"))
            self.samples.save(self.path)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for a part's files, where TMPDIR says."""
    with TemporaryDirectory(prefix="rocketpipe-report-") as directory:
        yield Path(directory)


def measure_starts(bench: Bench, peers: Sequence[Peer], rows: Sequence[Row]) -> None:
    """Start each server by itself: how long it takes, and what it holds when nothing happens."""
    for _ in bench.rounds("start"):
        for peer in peers:
            with scratch() as directory:
                try:
                    with running(
                        peer, directory, bench.generator, bench.pinning, sync=False
                    ) as server:
                        found = {
                            "ready": (server.ready_s, "seconds"),
                            "idle": (server.idle.resident / 1e6, "megabytes"),
                        }
                        server.kill()
                except ServerFailed as error:
                    for row in rows:
                        bench.fail(row, peer, error)
                    continue
            for row in rows:
                value, figure = found[row.name]
                if (row.name, peer.name) not in bench.samples.failures:
                    bench.keep(row, peer, {figure: round(value, 3)}, f"{value:.2f} {figure}")


def measure_loads(bench: Bench, peers: Sequence[Peer], rows: Sequence[Row], part: Part) -> None:
    """Run all servers of a part side by side, and each row against each of them, round by round."""
    loads = {row.name: row.load for row in rows if row.load is not None}
    with ExitStack() as stack:
        directory = stack.enter_context(scratch())
        servers = list(_started(stack, bench, peers, rows, part, directory))
        for server in servers:
            _warm_up(bench, server, [each for each in loads.values() if server.peer.serves(each)])
        for _ in bench.rounds(part):
            for row in rows:
                load = _at_rate(bench.samples, loads[row.name])
                for server in servers:
                    if server.peer.serves(load):
                        _measure(bench, server, row, load)


def _started(
    stack: ExitStack,
    bench: Bench,
    peers: Sequence[Peer],
    rows: Sequence[Row],
    part: Part,
    directory: Path,
) -> Iterator[Server]:
    for peer in peers:
        mine = [row for row in rows if row.load is not None and peer.serves(row.load)]
        if not mine:
            continue
        own = directory / peer.name
        own.mkdir()
        try:
            server = stack.enter_context(
                running(
                    peer,
                    own,
                    bench.generator,
                    bench.pinning,
                    sync=part == "sync",
                    topics=TOPICS if part == "topics" else 0,
                )
            )
        except ServerFailed as error:
            for row in mine:
                bench.fail(row, peer, error)
            continue
        stack.callback(server.kill)  # in good order it takes longer, and all is thrown away
        print(f"{peer.title}: ready after {server.ready_s:.2f} s", flush=True)
        yield server


def _warm_up(bench: Bench, server: Server, loads: Sequence[Scenario]) -> None:
    """Fill what is read, and let the server see one load of each kind."""
    kinds: dict[Kind, Scenario] = {}
    for load in loads:
        kinds.setdefault(load.kind, load)
    each_s = max(LEAST_WARMUP_S, server.peer.warmup_s * bench.pace.warmup / len(kinds))
    try:
        server.fill(loads, bench.generator)
        for load in kinds.values():
            gentle = replace(load, rate=1000.0) if load.kind == "stream" else load
            server.measure(gentle, bench.generator, each_s, 0.0)
    except RunFailed as error:
        # Whether that matters, the runs that count will tell.
        bench.remark(f"{server.peer.title} stumbled while warming up: {error}")


def _measure(bench: Bench, server: Server, row: Row, load: Scenario) -> None:
    if (row.name, server.peer.name) in bench.samples.failures:
        return
    try:
        sample = server.measure(load, bench.generator, bench.pace.seconds, bench.pace.before_s)
    except RunFailed as error:
        bench.fail(row, server.peer, error)
        return
    bench.keep(row, server.peer, figures_of(sample), told(sample))


def figures_of(sample: Sample) -> Figures:
    """A sample as it is kept."""
    return {name: round(value, 4) for name, value in asdict(sample).items()}


def told(sample: Sample) -> str:
    """A sample for whoever watches."""
    return (
        f"{short(sample.messages_s):>6}/s {sample.cpu_us:7.1f} µs "
        f"{sample.p50_ms:8.2f} / {sample.p99_ms:.1f} ms"
    )


def _at_rate(samples: Samples, load: Scenario) -> Scenario:
    """Give a stream its rate: the same for all peers and rounds, so much to each group."""
    if load.kind != "stream":
        return load
    if samples.stream_rate is None:
        samples.stream_rate = stream_rate(samples.runs)
    return replace(load, rate=samples.stream_rate / load.groups)


def stream_rate(runs: Mapping[tuple[str, str], Sequence[Figures]]) -> float:
    """Half of the most single sends a second that Apache's broker answered for in one run."""
    rates = [
        each["messages_s"]
        for (row, peer), samples in runs.items()
        if peer == "apache" and row.startswith("send-") and "x1-" in row
        for each in samples
    ]
    return round(max(rates) / 2, -2) if rates else DEFAULT_RATE
