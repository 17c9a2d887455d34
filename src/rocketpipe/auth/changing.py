"""Who changes users and rights of a directory: one at a time, of all processes that have it.

What is checked before a change (is there such a user, is it the last who may do everything) holds
until the change is made, whichever broker of the directory was asked.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode

LOCK_FILE: Final = "auth.lock"
#: A change takes as long as the disk; who waits longer is told so.
PATIENCE_S: Final = 10.0
_AGAIN_S: Final = 0.02


class Changing:
    """Held for the length of a block, in which the tables are as the disk has them."""

    def __init__(self, users: UserTable, policies: PolicyTable) -> None:
        self._tables = (users, policies)
        self._here = asyncio.Lock()
        self._descriptor = -1

    async def __aenter__(self) -> None:
        """Wait for one's turn.

        Raises:
            RequestRejected: If it did not come in time, or the directory cannot be used.
        """
        await self._here.acquire()
        try:
            place = self._tables[0].place
            if place is not None and place.is_dir():
                self._descriptor = await _locked(place / LOCK_FILE)
                for table in self._tables:
                    await asyncio.to_thread(table.look)
        except BaseException:
            self._let_go()
            raise

    async def __aexit__(self, *_: object) -> None:
        """Let the next one have its turn."""
        self._let_go()

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)  # the lock goes with it
        self._here.release()


async def _locked(path: Path) -> int:
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_S
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _refused(f"{path.parent} cannot be used ({error.strerror})") from error
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                if loop.time() >= until:
                    raise _refused("somebody else changes users all the while: try again") from None
            await asyncio.sleep(_AGAIN_S)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError):
            raise _refused(f"{path} cannot be locked ({error.strerror})") from error
        raise


def _refused(reason: str) -> RequestRejected:
    return RequestRejected(ResponseCode.SYSTEM_ERROR, f"not changed: {reason}")
