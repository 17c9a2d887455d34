"""What the Spark side of the demo is told."""

from __future__ import annotations

from demo.spark_job import Settings


def test_tables_and_checkpoint_are_in_the_runs_directory() -> None:
    settings = Settings("n:1", "flights", "%DLQ%x", "/s", "/place", 10)
    places = (settings.raw.place, settings.windows.place, str(settings.checkpoint))
    assert places == ("/place/tables/flights", "/place/tables/delays", "/place/checkpoint")
