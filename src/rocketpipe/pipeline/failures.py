"""What Spark says of a failure, in the one line that helps.

Spark tells of it at length, in text alone, with the tracebacks of its Python processes inside. What
counts is our own sentence if there is one, and otherwise what is wrong with the nodes of a cluster,
which nobody but their operator can mend.
"""

from __future__ import annotations

import re
from typing import Final

_PYTHONS: Final = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception): [^\n]+)", re.M)
_OURS: Final = re.compile(r"rocketpipe\.[\w.]+\.\w+: ([^\n]+)")
_INSTALL: Final = (
    "install rocketpipe with its extra spark for the Python of every node, or name another one "
    "with PYSPARK_PYTHON"
)
JVM_DIED: Final = "Spark's JVM has died: run it again, and it goes on where it was"
#: What a failure says where nodes lack something, and what that means; the group is what.
_LACKING: Final = {
    re.compile(r"ImportError: ([^\n]*install rocketpipe[^\n]*)"): "{0}",
    re.compile(r'Cannot run program "([^"]+)"'): (
        "the nodes of the cluster have no Python at {0}: set PYSPARK_PYTHON to one that all of "
        "them have"
    ),
    re.compile(r"(?:ModuleNotFoundError: )?No module named '?([\w.]+)'?"): (
        f"a node of the cluster lacks the Python package {{0}}: {_INSTALL}"
    ),
    re.compile(
        r"(Answer from Java side is empty|Error while sending or receiving"
        r"|\AAn error occurred while calling [\w.]+\Z)"  # and nothing of what it was
    ): JVM_DIED,
    re.compile(r"PYTHON_VERSION_MISMATCH\]?\s*([^\n]*)"): (
        "the nodes of the cluster run another version of Python than this process: set "
        "PYSPARK_PYTHON to one of the same version"
    ),
}


def spark_errors() -> tuple[type[Exception], ...]:
    """What a call to Spark raises if Spark fails: PySpark puts most of it into words, not all."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:  # a client of Spark Connect alone
        return (PySparkException,)
    return (PySparkException, Py4JError)


def first_words(failure: str) -> str:
    """What happened, in a line: our own words if there are any."""
    lack = lacking(failure)
    if lack is not None:
        return lack
    said = _OURS.findall(failure) or _PYTHONS.findall(failure)
    return str(said[-1]) if said else failure.strip().split("\n")[0]


def lacking(failure: str) -> str | None:
    """What the nodes of a cluster lack, if a failure tells of that."""
    for words, meaning in _LACKING.items():
        found = words.search(failure)
        if found is not None:
            return meaning.format(found[1])
    return None
