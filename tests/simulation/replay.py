"""One run of the simulated replicas once more, with what the brokers said.

python -m tests.simulation.replay SEED [MODE [STEPS]]
"""

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


def main(seed: int, mode: str | None = None, steps: str | None = None) -> None:
    """Run it, and print its story."""
    run = ReplicaRun(seed, mode=mode, steps=int(steps) if steps else None)
    logging.basicConfig(level=logging.INFO, handlers=[_Said(run)], force=True)
    try:
        run.run()
    finally:
        sys.stdout.write("\n".join((*run.story, f"mode {run.mode}", "")))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
