"""A table that follows the topic, beside the plain read of the same columns into Parquet.

And the table compared with its topic, beside the plain read of the columns that it was made of:
that the comparison also reads the table is its own affair.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from benchmarks.spark.stored import TOPIC
from benchmarks.spark.turns import Seen, ratio, told
from pyspark.sql import SparkSession

from rocketpipe.tables import follow, verify
from rocketpipe.tables.columns import BODY, OF_MESSAGE

FOLLOWED, PLAIN = "table followed", "read into Parquet"
VERIFIED, READ = "table verified", "its messages read"


def follow_cases(
    session: SparkSession, root: Path, directory: Path
) -> dict[str, Callable[[], object]]:
    """All of them, what is written into a new directory each time."""
    numbers = itertools.count()
    kept = directory / "table-kept"
    follow(TOPIC, to=kept, store=str(root), once=True, spark=session)
    reader = session.read.format("rocketpipe").options(path=str(root), subscribe=TOPIC)

    def followed() -> None:
        to = directory / f"table-{next(numbers)}"
        follow(TOPIC, to=to, store=str(root), once=True, spark=session)

    def plain() -> None:
        reader.load().write.parquet(str(directory / f"plain-{next(numbers)}"))

    def verified() -> None:
        assert verify(kept, spark=session).is_equal

    def read() -> None:
        columns = ",".join([*OF_MESSAGE.names, BODY])
        frame = session.read.format("rocketpipe").options(path=str(root), subscribe=TOPIC)
        frame.option("columns", columns).load().write.format("noop").mode("overwrite").save()

    return {PLAIN: plain, FOLLOWED: followed, READ: read, VERIFIED: verified}


def print_follow(rows: int, seen: dict[str, Seen]) -> None:
    """All of them, and the targets."""
    for name, one in seen.items():
        print(f"{name:22}{one.cpu_s:9.2f}{one.wall_s:9.2f}{rows / one.wall_s:12,.0f}")
    if PLAIN in seen and FOLLOWED in seen:
        found = ratio(seen[PLAIN].wall, seen[FOLLOWED].wall)
        told("a table followed against the plain read", found, 0.5, at_most=False)
    if READ in seen and VERIFIED in seen:
        found = ratio(seen[VERIFIED].wall, seen[READ].wall)
        told("time of a table verified against a read", found, 1.5, at_most=True)
        found = ratio(seen[VERIFIED].cpu, seen[READ].cpu)
        told("… the CPU", found, 1.5, at_most=True)
