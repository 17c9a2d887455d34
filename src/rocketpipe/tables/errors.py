"""What can be wrong with a table that follows a topic; each text says what to do next."""

from __future__ import annotations

from rocketpipe.errors import RocketPipeError


class TableError(RocketPipeError):
    """A table that cannot be made, opened or written."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason

    def __reduce__(self) -> tuple[type[TableError], tuple[str, str]]:
        return type(self), (self.place, self.reason)


class NotATable(TableError):
    """A directory that is no table that follows a topic, or cannot become one."""


class SpecMismatch(TableError):
    """What was asked of a table is not what it is, and it cannot be changed into that."""


class AlreadyFollowed(TableError):
    """Another process writes the table."""


class CheckpointMismatch(TableError):
    """Table and checkpoint do not belong together: to go on would lose rows, or double them."""


class NewColumns(TableError):
    """Bodies have fields that the table has no column for, and may not get one."""


class DatabaseAway(TableError):
    """A database that cannot take rows now; it may be tried again."""

    retryable = True


class DatabaseRefused(TableError):
    """A database that does not take what it is asked to."""


class TooManyParts(TableError):
    """A batch has so many values of the partition column that it would be all small files."""


class NotShared(TableError):
    """Tasks have written files that the driver does not see."""


class HalfReplayed(TableError):
    """A replay of bad rows was cut off: until it is finished, rows may be in two places."""


class HalfRebuilt(TableError):
    """A rebuild was cut off while the table got its rows: it has to be finished first."""


class VerifyFailed(TableError):
    """A table could not be compared with its topic."""


class ReplayFailed(TableError):
    """Bad rows could not be replayed."""


class RebuildFailed(TableError):
    """A table could not be made anew; the old one is as it was."""
