"""What the flows of a pipeline do, batch by batch: a line each in its folder, figures on a port.

The lines are those of ``rocketpipe.pipeline.listening``. They come out of Spark's event log: the
queries are those of a server, and no listener of ours is in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from logging.handlers import RotatingFileHandler
from typing import Any, Final

from rocketpipe.pipeline import listening
from rocketpipe.pipeline.figures import Figures, name_of
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.graph import plain
from rocketpipe.projects.records import Run

LOG_NAME: Final = "batches.log"
#: The log begins anew when it has so much; the one before is kept beside it.
MOST_BYTES: Final = 4_000_000


class Teller:
    """Tells what it hears of batches and of runs."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._failed: set[str] = set()

    def heard(self, progress: Mapping[str, Any]) -> None:
        """A query has said something of itself."""
        flow = plain(name_of(progress.get("name"), progress.get("id")))
        listening.tell(self._figures, progress, flow)

    def ended(self, run: Run) -> None:
        """A run has ended: its flows failed, or wait for the next one."""
        for flow in run.flows.values():
            if flow.error is not None:
                self._failed.add(flow.name)
                self._figures.ended(flow.name, flow.error)
            elif flow.name in self._failed:
                self._failed.remove(flow.name)
                self._figures.started(flow.name)


@contextmanager
def batches_told(folder: Folder, port: int | None, say: Callable[[str], None]) -> Iterator[Teller]:
    """Give what tells of batches within the block; ``say`` is told the address.

    Raises:
        PortUnavailable: If the port is taken.
    """
    figures = Figures()
    lines = RotatingFileHandler(folder.own / LOG_NAME, maxBytes=MOST_BYTES, backupCount=1)
    lines.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = listening.log
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    try:
        with nullcontext() if port is None else listening.MetricsPort(figures, port) as opened:
            if opened is not None:
                say(f"metrics at http://{opened.address}/metrics")
            yield Teller(figures)
    finally:
        logger.removeHandler(lines)
        logger.setLevel(level)
        lines.close()
