"""How Spark finds the source: it looks for ``DefaultSource`` in packages named ``pyspark_*``."""

from rocketpipe.pipeline.source import RocketPipeSource as DefaultSource

__all__ = ["DefaultSource"]
