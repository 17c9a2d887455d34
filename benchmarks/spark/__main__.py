"""Spark and our topics: reads, triggers, writes and tables, each beside what it is compared with.

Each case is run once to warm up, then all in turns, in one Spark; ratios are taken round by round,
and their median counts.

    make bench-spark                             2,000,000 rows of about 200 bytes
    make bench-spark BENCH="--rows 200000"       quicker, and rougher
    make bench-spark BENCH="--only writes"       reads, triggers, writes or tables alone
    make bench-spark BENCH="--only reads --cases '* core'"
    make bench-spark BENCH="--only tables --cases 'table verified' --cases '* read'"
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.spark.following import follow_cases, print_follow
from benchmarks.spark.reading import broker, print_reads, read_cases
from benchmarks.spark.stored import QUEUES, fill
from benchmarks.spark.triggers import triggers_ms
from benchmarks.spark.turns import in_turns, peak_mb, told
from benchmarks.spark.writing import measure_writes
from pyspark.sql import SparkSession

from rocketpipe.pipeline import launch

#: Does its work once.
Case = Callable[[], object]

PARTS = ("reads", "tables", "triggers", "writes")


@contextlib.contextmanager
def spark_session(scratch: Path) -> Iterator[SparkSession]:
    """Spark with its usual compilers: a benchmark runs long enough for them to pay."""
    launch.prepare_alone()
    builder = SparkSession.builder.master("local[2]").appName("bench-spark")
    for name, value in launch.settings(scratch).items():
        if name != "spark.driver.extraJavaOptions":
            builder = builder.config(name, value)
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def main() -> None:
    """Fill a store, read, follow and write in all ways, print how they compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-broker", action="store_true", help="leave the broker's reads out")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part")
    parser.add_argument(
        "--cases", action="append", help="only reads and tables whose names fit such a pattern"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as directory:
        run(chosen, Path(directory))


def picked(cases: Mapping[str, Case], patterns: Sequence[str] | None) -> dict[str, Case]:
    """Those whose names fit one of the patterns, or all."""
    fit = patterns or ("*",)
    return {name: case for name, case in cases.items() if any(fnmatch(name, one) for one in fit)}


def tell_memory() -> None:
    """What the processes of this Spark have had resident at most."""
    worker, driver, java = peak_mb()
    told("most memory of a Python worker", worker, 512, at_most=True, unit=" MB")
    print(f"{'… of the driver, and of its JVM':52}{driver:8} MB,{java:8} MB")


def run(chosen: argparse.Namespace, directory: Path) -> None:
    root, rows, parts = directory / "store", chosen.rows, chosen.only or PARTS
    if set(parts) != {"writes"}:
        mean = fill(root, rows)
        print(f"{rows:,} rows of {mean:.0f} bytes in {QUEUES} queues")
    with spark_session(directory) as session:
        if "reads" in parts:
            with contextlib.ExitStack() as stack:
                server = None if chosen.no_broker else stack.enter_context(broker(root))
                cases = read_cases(session, root, directory, rows, server)
                print_reads(rows, in_turns(picked(cases, chosen.cases), chosen.rounds))
            tell_memory()
        if "tables" in parts:
            cases = follow_cases(session, root, directory)
            print_follow(rows, in_turns(picked(cases, chosen.cases), chosen.rounds))
            tell_memory()
        if "triggers" in parts:
            took = triggers_ms(session, root, directory, chosen.rounds)
            found = took["ours"] / took["trivial"]
            told("a trigger against a trivial Python source's", found, 1.15, at_most=True)
            found = took["ours"] / took["Spark's own"]
            print(f"{'the same against a source that is Spark itself':52}{found:8.2f}x")
        if "writes" in parts:
            measure_writes(session, directory / "servers", rows, chosen.rounds)


if __name__ == "__main__":
    main()
