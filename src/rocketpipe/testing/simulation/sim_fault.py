"""What can go wrong with one operation of a simulated disk."""

from __future__ import annotations

import os
import random
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from rocketpipe.store.files.disk import DiskError


class PowerCut(BaseException):
    """The machine is off: no code of the program under test runs on, whatever it catches."""


class Progress(Enum):
    """How far a failing operation came before it failed."""

    NONE = auto()
    SOME = auto()
    ALL = auto()


@dataclass(slots=True)
class Fault:
    """One operation that goes wrong."""

    at: int
    errno: int
    only: Collection[str]
    path: str
    times: int
    progress: Progress
    chance: random.Random
    is_power_cut: bool = False

    def meets(self, operation: str, path: Path) -> bool:
        """Count an operation if it is of those concerned; True if it is to fail."""
        if self.only and operation not in self.only:
            return False
        if self.path not in str(path):
            return False
        self.at -= 1
        return self.at <= 0

    @property
    def took_effect(self) -> bool:
        """Whether the operation was carried out although it reports that it was not."""
        return self.progress is Progress.ALL

    def share(self, size: int) -> int:
        """How many of ``size`` bytes were taken before the failure."""
        if self.progress is Progress.SOME:
            return self.chance.randint(0, size)
        return size if self.took_effect else 0

    def error(self, operation: str, path: Path, written: int = 0) -> BaseException:
        """What the caller of the operation gets to see."""
        if self.is_power_cut:
            return PowerCut(f"power cut during {operation} {path}")
        return DiskError(operation, path, OSError(self.errno, os.strerror(self.errno)), written)
