"""Work beside a store's own thread, done by nobody but the test, when it says so.

What a thread would do at any moment happens here at a chosen one, and so the same way every time.
"""

from __future__ import annotations

from rocketpipe.store.files.background_sync import Wait, Work, Worker


class LateWorker(Worker):
    """Keeps what it is given until it is told to `work`, or somebody waits for it."""

    aside = True

    def __init__(self) -> None:
        self._given: list[_LateWork] = []

    def __len__(self) -> int:
        return len(self._given)

    def do(self, what: Wait) -> Work:
        """Have something done, when the time has come."""
        work = _LateWork(what, self)
        self._given.append(work)
        return work

    def work(self) -> bool:
        """Do what was given first; False if there is nothing."""
        if not self._given:
            return False
        self._given.pop(0).run()
        return True

    def stop(self) -> None:
        """Finish what was given."""
        while self.work():
            pass

    def drop(self) -> None:
        """Forget what was given."""
        while self._given:
            self._given.pop(0).drop()


class _LateWork(Work):
    def __init__(self, do: Wait, worker: LateWorker) -> None:
        super().__init__(do)
        self._worker = worker

    def wait(self) -> None:
        while not self.done:
            self._worker.work()
