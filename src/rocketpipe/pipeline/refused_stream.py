"""A stream that cannot be read, for a Spark that is told so too early to say it.

Spark makes a stream's reader and stops it in one block: where making it fails, stopping what was
never made fails as well, and that is what a user sees, below two pages of frames. So such a reader
is made, and says why there is none when it is asked for the first time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import InputPartition

from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.stream import STREAM_READER_BASES
from rocketpipe.pipeline.telling import plainly


class RefusedStream(*STREAM_READER_BASES):  # type: ignore[misc]
    """Answers whatever Spark asks with the same error; every method raises it."""

    def __init__(self, error: RocketPipeError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query would begin."""
        self._refuse()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Where its next batch would end."""
        self._refuse()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """How much a batch would take."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Where the query would end."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What tasks would read."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows that there are not."""
        self._refuse()

    def stop(self) -> None:
        """Nothing is held."""

    @plainly()
    def _refuse(self) -> NoReturn:
        raise self._error
