"""One run of the simulated replicas again, with all that the brokers said: ``… replay SEED [MODE]``."""

from __future__ import annotations

import logging
import sys

from tests.simulation.support.replica_run import ReplicaRun
from tests.simulation.support.sim_loop import current_process


class _Said(logging.Handler):
    def __init__(self, run: ReplicaRun) -> None:
        super().__init__()
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        process = current_process()
        who = process.name if process is not None else "world"
        self._run.say(f"{who}: {record.levelname} {record.getMessage()}")
        if record.exc_info:
            self._run.say(logging.Formatter().formatException(record.exc_info))


def main(seed: int, mode: str | None = None) -> None:
    """Run it, and print its story."""
    run = ReplicaRun(seed, mode=mode)
    logging.basicConfig(level=logging.INFO, handlers=[_Said(run)], force=True)
    try:
        run.run()
    finally:
        print("\n".join(run.story))
        print(f"seed {seed}, mode {run.mode}, {len(run.promises.acked)} acknowledged")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
