"""The progress of queries, out of the event log that Spark writes while it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_PROGRESS: Final = "QueryProgressEvent"
_NUMBER: Final = re.compile(r"events_(\d+)_")


class EventLog:
    """Reads on in a log that is cut into files; those that are done with are removed."""

    def __init__(self, directory: Path) -> None:
        """Take the directory in which Spark makes one for its log."""
        self._directory = directory
        self._file: Path | None = None
        self._place = 0

    def news(self) -> Iterator[dict[str, Any]]:
        """What queries have told since this was called last."""
        files = sorted(self._directory.glob("eventlog_v2_*/events_*"), key=_number)
        if self._file is not None:
            files = [file for file in files if _number(file) >= _number(self._file)]
        for file in files:
            if file != self._file:
                if self._file is not None:
                    self._file.unlink(missing_ok=True)
                self._file, self._place = file, 0
            yield from self._of_file(file)

    def _of_file(self, file: Path) -> Iterator[dict[str, Any]]:
        with file.open("rb") as log:
            log.seek(self._place)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # the rest of it is still to come
                self._place += len(line)
                if _PROGRESS.encode() in line:
                    event = json.loads(line)
                    if str(event.get("Event", "")).endswith(_PROGRESS):
                        yield _progress(event)


def _progress(event: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = event.get("progress", {})
    return value


def _number(file: Path) -> int:
    found = _NUMBER.match(file.name)
    return int(found[1]) if found else 0
