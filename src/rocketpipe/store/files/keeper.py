"""Who keeps files open that it could do without, for when there is no descriptor left."""

from __future__ import annotations

from typing import Protocol


class Keeper(Protocol):
    """Asked by a disk before it gives up opening a file."""

    def spare(self) -> int:
        """Close what is idle; gives how many files that were."""
