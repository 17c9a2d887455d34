"""What one task reads, as Spark hands it over: it takes nothing but partitions of its own class."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from rocketpipe.pipeline.planning.ranges import ReadPartition


@dataclass(frozen=True)
class SparkPartition(ReadPartition, InputPartition):
    """A part of the plan that travels to a task."""
