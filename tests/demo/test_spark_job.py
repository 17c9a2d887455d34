"""What a query may be restarted for."""

from __future__ import annotations

from demo.spark_job import Settings, why


def test_only_failures_with_a_known_excuse_are_excused() -> None:
    slow = "org.apache.spark.SparkException: Python worker failed to connect back."
    assert why(slow) == "a Python worker did not start within Spark's 10 s"
    assert why("rocketpipe.errors.ConnectionLost: 127.0.0.1:1: refused") == "the broker was away"
    assert why("ValueError: batch 3 has other columns") is None
    assert why("None") is None


def test_tables_and_checkpoint_are_in_the_runs_directory() -> None:
    settings = Settings("n:1", "flights", "%DLQ%x", "/s", "/place", 10)
    places = (settings.raw.place, settings.windows.place, str(settings.checkpoint))
    assert places == ("/place/tables/flights", "/place/tables/delays", "/place/checkpoint")
