"""The data pipeline on Spark: see docs/spark.md.

Spark imports this package to find the source, so it imports little by itself.
"""

from rocketpipe.pipeline.register import register

__all__ = ["register"]
