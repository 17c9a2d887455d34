"""What can be wrong with a job; each text says what to do next."""

from __future__ import annotations

from rocketpipe.errors import RocketPipeError


class JobError(RocketPipeError):
    """A job that cannot be run, or that failed."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason

    def __reduce__(self) -> tuple[type[JobError], tuple[str, str]]:
        return type(self), (self.place, self.reason)


class NotAJobFolder(JobError):
    """A directory in which another job, or something else, has its files."""


class JobRuns(JobError):
    """The job writes to that directory already."""


class JobFailed(JobError):
    """Spark could not do what a job asked of it."""
