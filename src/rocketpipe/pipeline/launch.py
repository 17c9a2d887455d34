"""What must be settled before a process starts Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

from rocketpipe.pipeline.java import ensure_java


def prepare(environ: MutableMapping[str, str] | None = None) -> None:
    """Settle Java, and that Spark's workers run this Python, unless the environment says otherwise.

    Spark starts whatever ``python3`` comes first on the path; one that lacks this package would
    not find the source. Call it before the first session of the process.

    Raises:
        JavaNotFound: If there is no Java that Spark runs on.
    """
    environ = os.environ if environ is None else environ
    ensure_java(environ)
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
