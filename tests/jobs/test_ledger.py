"""Ledgers of producers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketpipe.errors import ConfigError
from rocketpipe.jobs.ledger import kind_of, read_ledger


def test_the_kind_of_a_ledger_is_that_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.JSONL").touch()
    assert kind_of(tmp_path / "a.JSONL") == "json"
    assert kind_of(tmp_path) == "json"
    (tmp_path / "notes.txt").touch()
    assert kind_of(tmp_path) == "json"
    with pytest.raises(ConfigError, match=r"is no \.jsonl, \.csv or \.parquet"):
        kind_of(tmp_path / "notes.txt")
    (tmp_path / "b.csv").touch()
    with pytest.raises(ConfigError, match="files of several kinds"):
        kind_of(tmp_path)


@pytest.mark.spark
def test_rows_that_count_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    ledger = tmp_path / "sent.csv"
    ledger.write_text("Message_Id,queue_id,acknowledged\na,1,true\na,1,true\nb,x,\nc,1,false\n")
    rows = read_ledger(spark, str(ledger), ("orders",)).orderBy("message_id").collect()
    assert [(row.message_id, row.queue_id, row.topic) for row in rows] == [
        ("a", 1, "orders"),
        ("b", None, "orders"),
    ]
    with pytest.raises(ConfigError, match="has no column topic"):
        read_ledger(spark, str(ledger), ("orders", "carts"))
    ledger.write_text("offset,when\n1,2\n")
    with pytest.raises(ConfigError, match="no column message_id or key, but offset, when"):
        read_ledger(spark, str(ledger), ("orders",))
