"""Listens to the streaming queries of a session: figures on a port, and a line a batch in the log.

from rocketpipe.pipeline import watch_queries

with watch_queries(spark, port=9404) as watch:
    ...     # queries; http://127.0.0.1:9404/metrics has rows, times, lag and state of each
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rocketpipe.health.http_port import Watched
from rocketpipe.health.http_thread import HttpThread
from rocketpipe.pipeline.figures import Figures, batch_of, name_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

log = logging.getLogger("rocketpipe.pipeline.queries")


class MetricsPort:
    """Figures of queries on an HTTP port: /metrics, and /readyz which says what failed."""

    def __init__(self, figures: Figures, port: int, host: str = "127.0.0.1") -> None:
        """Open the port; 0 takes a free one.

        Raises:
            PortUnavailable: If it is taken, or the address is not this machine's.
        """
        watched = Watched()
        watched.add(figures.problem, figures.families)
        watched.started = True
        self._thread = HttpThread(host, port, watched)
        #: ``host:port``, as it came out.
        self.address = self._thread.address

    def __enter__(self) -> MetricsPort:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port."""
        self._thread.close()


class QueryWatch:
    """A listener of a session's queries; it stops listening with its block, or with ``close``."""

    def __init__(
        self, spark: SparkSession, figures: Figures, port: MetricsPort | None = None
    ) -> None:
        """Listen; the port is closed with it."""
        self.figures = figures
        self._spark = spark
        self._port = port
        #: Where the figures are, as ``host:port``; None without a port.
        self.address = port.address if port else None
        self._listener = listener(figures)
        try:
            spark.streams.addListener(self._listener)
        except BaseException:
            self._close_port()
            raise

    def __enter__(self) -> QueryWatch:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and close the port."""
        try:
            self._spark.streams.removeListener(self._listener)
        finally:
            self._close_port()

    def _close_port(self) -> None:
        if self._port is not None:
            self._port.close()


def watch_queries(
    spark: SparkSession, *, port: int | None = None, host: str = "127.0.0.1"
) -> QueryWatch:
    """Listen to all streaming queries of a session, also to those that start later.

    Each batch is a line in the log ``rocketpipe.pipeline.queries``. With ``port``, rows, batch
    times, lag and state of each query are at ``http://host:port/metrics``; port 0 takes a free
    one, which ``address`` tells.

    Raises:
        PortUnavailable: If the port is taken, or the address is not this machine's.
    """
    figures = Figures()
    return QueryWatch(spark, figures, None if port is None else MetricsPort(figures, port, host))


def listener(figures: Figures) -> StreamingQueryListener:
    """A listener of Spark's that keeps figures, and writes a line a batch."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def __init__(self) -> None:
            self._names: dict[str, str] = {}

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
            name = self._names[str(event.id)] = name_of(event.name, event.id)
            figures.started(name)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
            tell(figures, json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
            query_id = str(event.id)
            failed = str(event.exception).strip().split("\n")[0] if event.exception else None
            figures.ended(self._names.pop(query_id, name_of(None, query_id)), failed)

    return Listener()


def tell(figures: Figures, progress: Mapping[str, Any], query: str | None = None) -> None:
    """Take what a query says of itself, and log it if it was a batch."""
    batch = batch_of(progress, query)
    if batch is not None:
        figures.take(batch)
        log.info("%s", batch.line())
