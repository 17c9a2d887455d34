"""What is told of what Spark says."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from rocketpipe.pipeline.failures import JVM_DIED, first_words, lacking, spark_errors


def test_what_pyspark_does_not_put_into_words_is_sparks_too() -> None:
    assert issubclass(PySparkException, spark_errors())
    assert issubclass(Py4JJavaError, spark_errors())
    assert not issubclass(OSError, spark_errors())
    assert first_words(str(Py4JNetworkError("Answer from Java side is empty"))) == JVM_DIED
    assert first_words("An error occurred while calling o73.isActive") == JVM_DIED
    assert first_words("An error occurred while calling o7.x.\n: a.Error: no\n\tat b") != JVM_DIED


def test_our_own_words_go_before_sparks() -> None:
    said = "Py4JError: x\nrocketpipe.errors.NoRoute: topic 'a' is not known\n  at org.apache"
    assert first_words(said) == "topic 'a' is not known"
    assert first_words("\nplain\nmore") == "plain"
    bare = "An exception was raised. Return Message: Traceback\n  File x\nException: no such\n"
    assert first_words(bare) == "Exception: no such"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'Job aborted\njava.io.IOException: Cannot run program "/opt/python": error=2',
            "have no Python at /opt/python: set PYSPARK_PYTHON",
        ),
        (
            "Traceback\nModuleNotFoundError: No module named 'msgspec'\n  at org",
            "lacks the Python package msgspec: install rocketpipe",
        ),
        (
            "Error from python worker:\n  /usr/bin/python3: No module named rocketpipe\n",
            "lacks the Python package rocketpipe: install",
        ),
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different",
            "run another version of Python",
        ),
        (
            "ImportError: No module named 'x': install rocketpipe, with its extra spark, for p",
            "No module named 'x': install rocketpipe, with its extra spark, for p",
        ),
    ],
)
def test_what_nodes_of_a_cluster_lack_is_told_with_the_next_step(said: str, told: str) -> None:
    assert told in first_words(said)
    assert "\n" not in first_words(said)


def test_other_failures_are_not_about_nodes() -> None:
    assert lacking("there is no such column") is None
