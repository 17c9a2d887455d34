"""The main job: a year of flights through every part, three kills on the way, and a proof.

A NameServer and a broker start as a child process; ``play`` says what happens then. Everything the
run writes is in one directory, made anew by each run: the report, the tables, the broker's store
and the logs. The exit code is 0 only if all of the proof holds.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from demo import data, log_reading, pipelining, servers, takeover, third_party
from demo.page import write_page
from demo.play import Play, Run
from demo.proof import Proof, prove
from demo.report import next_steps, summary
from demo.servers import Servers
from demo.takeover import take_over
from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline import launch

ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = ROOT / "out" / "demo"
#: A directory is emptied only if it has this, so is one of ours.
STAMP: Final = ".rocketpipe-demo"
LOG_NAME: Final = "demo.log"
LAST_LINES: Final = 30
FAST: Final = 10
FEWEST: Final = 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and print what it found; the number is the exit code."""
    options = _parser().parse_args(arguments)
    stopped_by = [signal.SIGINT]

    def stop(number: int, frame: object) -> None:
        stopped_by[0] = signal.Signals(number)
        signal.raise_signal(signal.SIGINT)  # which Python and asyncio know how to leave by

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)
    count = options.flights or data.ALL_FLIGHTS // (FAST if options.fast else 1)
    place: Path = options.out.resolve()
    try:
        empty(place)
        with logged(place):
            return run(count, place, keep=options.keep)
    except KeyboardInterrupt:
        print("\nInterrupted: the servers and Spark are stopped.")
        return 128 + stopped_by[0]
    except (RocketPipeError, OSError, TimeoutError) as error:
        show_logs(place)
        print(f"\nThe demo failed: {error or type(error).__name__}", file=sys.stderr)
        return 1


def run(count: int, place: Path, *, keep: bool) -> int:
    """The job, with its files in ``place``."""
    began = time.monotonic()
    launch.prepare_alone()  # a missing Java shows before the work, not after it
    rows = data.rows(count)
    facts = data.facts(rows)
    flights = list(data.flights(rows))
    say(
        f"{facts.flights:,} flights of {len(facts.by_carrier)} carriers, "
        f"{facts.cancelled.total():,} of them cancelled, {facts.steps_back:,} steps back in time"
    )
    try:
        guest = third_party.invite(place)
        say(f"{guest.name} is installed, a client of someone else")
    except third_party.NoGuest as reason:
        say(f"no client of someone else can be had: {reason}")
    setup_s = time.monotonic() - began
    child = Servers(place)
    try:
        done = asyncio.run(_play(flights, child, place))
        proof = prove(facts, done.evidence)
        page = place / "report.html"
        write_page(page, done, proof, setup_s)
        print(summary(done, proof, setup_s))
        print(next_steps(page, child, keep=keep))
        return verdict(proof)
    finally:
        if not keep or sys.exc_info()[0] is not None:
            child.stop()


def verdict(proof: Proof) -> int:
    """Say whether all of it holds; the number is the exit code."""
    if proof.holds:
        print("\nAll of it holds: nothing lost, nothing twice where that matters, order kept.")
        return 0
    print("\nNot all of it holds: see the rows marked ✗.")
    return 1


async def _play(flights: Sequence[data.Flight], child: Servers, place: Path) -> Run:
    await child.start()
    say(
        f"servers run in process {child.pid}: NameServer {child.name_server}, broker {child.broker}"
    )
    try:
        done = await Play(flights, child, place, say).run()
        done.evidence.takeover = await take_over(flights, place, say)
        return done
    except ExceptionGroup as failures:
        raise _first(failures) from None  # one tells enough


def _first(failures: ExceptionGroup[Exception]) -> Exception:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def say(line: str) -> None:
    """Tell on the terminal what happens."""
    print(f"{time.strftime('%H:%M:%S')} • {line}", flush=True)


def empty(place: Path) -> None:
    """Make a directory for the run, in place of the last run's.

    Raises:
        RocketPipeError: If something else is there.
    """
    if place.exists():
        if any(place.iterdir()) and not (place / STAMP).exists():
            raise RocketPipeError(f"{place} holds something that is not a demo's: name another")
        shutil.rmtree(place)
    place.mkdir(parents=True)
    (place / STAMP).touch()


@contextmanager
def logged(place: Path) -> Iterator[None]:
    """Keep what libraries log off the terminal: clients complain, rightly, of a killed broker."""
    handler = logging.FileHandler(place / LOG_NAME)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def show_logs(place: Path) -> None:
    """Print how the logs end."""
    names = (
        *(servers.LOG_NAME, pipelining.LOG_NAME, *pipelining.SPARK_LOGS),
        *(f"spark/{launch.LOG_NAME}", log_reading.LOG_NAME, takeover.LOG_NAME, LOG_NAME),
    )
    for name in names:
        log = place / name
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        if lines:
            print(f"\n--- the end of {name}", *lines[-LAST_LINES:], sep="\n", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo",
        description="Replay a year of flights through broker, consumers and Spark, kill both on "
        "the way, and prove that nothing is lost.",
    )
    parser.add_argument("--fast", action="store_true", help="take a tenth of the data")
    parser.add_argument(
        "--flights", type=_enough, metavar="N", help=f"take so many flights, {FEWEST:,} at least"
    )
    parser.add_argument("--keep", action="store_true", help="leave the servers running")
    parser.add_argument(
        "--out",
        type=Path,
        default=OUT,
        metavar="DIR",
        help="where report, tables, store and logs go (out/demo)",
    )
    return parser


def _enough(text: str) -> int:
    if not text.isdecimal() or not FEWEST <= int(text) <= data.ALL_FLIGHTS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number from {FEWEST} to {data.ALL_FLIGHTS}"
        )
    return int(text)
