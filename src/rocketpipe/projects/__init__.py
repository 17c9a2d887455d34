"""Declared pipelines: folders that Spark Declarative Pipelines runs, over topics.

``expect`` is for their files of definitions; the rest is behind ``rocketpipe pipeline``.
"""

from rocketpipe.projects.expectations import expect

__all__ = ["expect"]
