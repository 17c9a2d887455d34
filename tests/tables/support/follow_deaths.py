"""A topic followed into a table on a real Spark, in a process that dies at a step.

    python -m tests.tables.support.follow_deaths PLACE FORM ADDRESS STORE [STEP]

A step is one of `tests.tables.support.deaths`, at which driver and JVM die together; or ``task``:
then a Python worker dies, once, with its rows written and not listed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tables.support.deaths import watch

from rocketpipe.tables.batches import BatchWriter, listed_by_spark
from rocketpipe.tables.files import FileTask
from rocketpipe.tables.following import follow


@dataclass(frozen=True)
class DyingTask:
    """A task whose worker dies where it would list what it wrote, if nobody has died yet."""

    task: FileTask
    mark: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for listed in self.task(batches):
            if not Path(self.mark).exists():
                Path(self.mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield listed


def _let_a_worker_die(mark: Path) -> None:
    init = BatchWriter.__init__

    def made(self: BatchWriter, *given: Any, **named: Any) -> None:
        init(self, *given, **named)
        self.list_files = lambda frame, task: listed_by_spark(
            frame,
            DyingTask(task, str(mark)),  # type: ignore[arg-type]
        )

    BatchWriter.__init__ = made  # type: ignore[method-assign]


def main(place: str, form: str, address: str, store: str, step: str | None = None) -> None:
    if step == "task":
        _let_a_worker_die(Path(f"{place}.died"))
    elif step is not None:
        watch(form, step)
    database = form == "postgres"
    follow(
        "orders",
        to=address if database else place,
        state=place if database else None,
        format=form,
        store=store,
        decode="json",
        schema="n INT",
        batch_rows=20,
        once=True,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
