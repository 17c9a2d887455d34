"""What producers know to be acknowledged: a file with a row for each send.

JSON lines (``.jsonl``, ``.json``), CSV with a head (``.csv``) or Parquet (``.parquet``), or a
directory of files of one kind. Columns, of which one of the first two is needed; others are passed
over:

    message_id      the id that the producer got (``SendResult.message_id``)
    key             a key that only this message of the topic has, where the id is not known
    topic           needed if several topics are audited
    acknowledged    true or false; rows with false are left out (all count)
    broker, queue_id, queue_offset
                    where the acknowledgement said that it is
    sequence        a whole number; of one producer, in one queue, a later one has a later offset
    producer        whose sequence it is (all rows are of one)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: Final = {
    "message_id": "STRING",
    "key": "STRING",
    "topic": "STRING",
    "acknowledged": "BOOLEAN",
    "broker": "STRING",
    "queue_id": "INT",
    "queue_offset": "BIGINT",
    "sequence": "BIGINT",
    "producer": "STRING",
}
_KINDS: Final = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
_HINT: Final = "see docs/how-to/jobs.md for what a ledger has"


def kind_of(place: Path) -> str:
    """The kind of a ledger's files, by their names.

    Raises:
        ConfigError: If there is none, or it is none of those that can be read.
    """
    files = [place] if place.is_file() else [each for each in place.rglob("*.*") if each.is_file()]
    kinds = {_KINDS[each.suffix.lower()] for each in files if each.suffix.lower() in _KINDS}
    if len(kinds) != 1:
        what = "has files of several kinds" if kinds else "is no .jsonl, .csv or .parquet"
        raise ConfigError("--ledger", f"{place} {what}: {_HINT}")
    return kinds.pop()


def read_ledger(spark: SparkSession, path: str, topics: tuple[str, ...]) -> DataFrame:
    """Acknowledged sends: all columns there may be, ``number`` of them one for each.

    Raises:
        ConfigError: If it is no ledger.
    """
    from pyspark.sql import functions as f

    place = Path(path).absolute()
    reader = spark.read.options(recursiveFileLookup="true")
    kind = kind_of(place)
    if kind == "csv":
        found = reader.option("header", "true").csv(str(place))
    else:
        found = getattr(reader, kind)(str(place))
    there = {name.strip().lower(): name for name in found.columns}
    if not there.keys() & {"message_id", "key"}:
        have = ", ".join(sorted(there)) or "none"
        raise ConfigError(
            "--ledger",
            f"{path} has no column message_id or key, but {have}: {_HINT}",
        )
    if "topic" not in there and len(topics) > 1:
        raise ConfigError("--ledger", f"{path} has no column topic: audit one topic at a time")
    columns: list[Any] = [
        (f.col(f"`{there[name]}`") if name in there else f.lit(None)).try_cast(kind).alias(name)
        for name, kind in _TYPES.items()
    ]
    rows = found.select(*columns)
    if "topic" not in there:
        rows = rows.withColumn("topic", f.lit(topics[0]))
    rows = rows.where("coalesce(acknowledged, true)").where(f.col("topic").isin(*topics))
    by = ["topic", "message_id", "key"]
    return rows.where("message_id IS NOT NULL OR key IS NOT NULL").dropDuplicates(by)
