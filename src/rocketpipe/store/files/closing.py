"""What is held and has to be let go."""

from __future__ import annotations

from typing import Self


class Closing:
    """What is closed at the end of its ``with`` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what is held."""
        raise NotImplementedError
