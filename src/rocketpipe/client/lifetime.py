"""Opening and closing by hand, for who has no block to put a client around.

    await producer.open()       where a service starts
    await producer.close()      where it ends

``async with`` does the same, and cannot be forgotten. What is closed can be opened again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self


class Lifetime(ABC):
    """What is used inside ``async with``, or between ``open`` and ``close``."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether it can be used now."""

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(self, kind: None, error: None, trace: None, /) -> None: ...

    if not TYPE_CHECKING:  # checkers say it by themselves

        def __enter__(self) -> Any:
            name = type(self).__name__
            raise TypeError(
                f"a {name} for asyncio: say `async with`; rocketpipe.blocking has one for `with`"
            )

        def __exit__(self, *exc: object) -> None: ...

    async def open(self) -> Self:
        """Open it, as entering its ``async with`` does, with the same errors."""
        return await self.__aenter__()

    async def close(self) -> None:
        """Close it, as leaving its ``async with`` does; to close what is closed is no error."""
        if self.is_open:
            await self.__aexit__(None, None, None)
