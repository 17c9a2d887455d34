"""A table that follows the topic, beside the plain read of the same columns into Parquet."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from benchmarks.spark.stored import TOPIC
from benchmarks.spark.turns import Seen, ratio, told
from pyspark.sql import SparkSession

from rocketpipe.tables import follow

FOLLOWED, PLAIN = "table followed", "read into Parquet"


def follow_cases(
    session: SparkSession, root: Path, directory: Path
) -> dict[str, Callable[[], object]]:
    """Both, each into a new directory each time."""
    numbers = itertools.count()

    def followed() -> None:
        to = directory / f"table-{next(numbers)}"
        follow(TOPIC, to=to, store=str(root), once=True, spark=session)

    def plain() -> None:
        frame = session.read.format("rocketpipe").options(path=str(root), subscribe=TOPIC).load()
        frame.write.parquet(str(directory / f"plain-{next(numbers)}"))

    return {PLAIN: plain, FOLLOWED: followed}


def print_follow(rows: int, seen: dict[str, Seen]) -> None:
    """Both, and the target."""
    for name, one in seen.items():
        print(f"{name:22}{one.cpu_s:9.2f}{one.wall_s:9.2f}{rows / one.wall_s:12,.0f}")
    found = ratio(seen[PLAIN].wall, seen[FOLLOWED].wall)
    told("a table followed against the plain read", found, 0.5, at_most=False)
