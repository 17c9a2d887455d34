"""A ``plain_acl.yml`` that a server reads at its start and whenever it has changed.

Its accounts count before users of the same name that the server keeps, and change in the file
alone. A version that is refused, or leaves nobody who may do everything, changes nothing: the last
one counts on, and the log says why. A file is taken when it has stayed the same from one look to
the next, so one that is being written is not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from pathlib import Path
from typing import Final

from rocketpipe.auth.plain.acl import PlainAcl, PlainAclRefused, Remark, read_plain_acl
from rocketpipe.auth.plain.yaml import MAX_BYTES
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.clock import Clock

#: How often the file is looked at, as RocketMQ does.
LOOK_EVERY_MS: Final = 5_000

log = logging.getLogger(__name__)


class PlainAclFile:
    """One file, and the tables that it lends its accounts to."""

    def __init__(
        self,
        path: Path,
        users: UserTable,
        policies: PolicyTable,
        *,
        white_lists_ignored: bool = False,
    ) -> None:
        self._path = path
        self._users = users
        self._policies = policies
        self._white_lists_ignored = white_lists_ignored
        #: What the file looked like when it was last read, and at the last look.
        self._read: tuple[int, ...] | None = None
        self._looked: tuple[int, ...] | None = None

    def load(self) -> None:
        """Take the accounts of the file, all of them or none.

        Raises:
            PlainAclRefused: If it is not as it should be, or lets addresses in without a login.
            OSError: If it cannot be read.
        """
        self._read = self._looked = now = self._look()
        self._take(self._parsed(now))

    async def follow(self, clock: Clock) -> None:
        """Take up every change of the file, for ever."""
        while True:
            await clock.sleep(LOOK_EVERY_MS)
            await self.look_again()

    async def look_again(self) -> None:
        """Take up a change of the file, if it has settled since the last look."""
        try:
            now = await asyncio.to_thread(self._look)
            settled = now == self._looked
            self._looked = now
            if now == self._read or not settled:
                return
            self._read = now
            found = await asyncio.to_thread(self._parsed, now)
            if not (_has_super(found) or self._has_super_of_its_own(found)):
                log.warning(
                    "accounts are not taken, the last ones count file=%s: nobody would be left who "
                    "may do everything",
                    self._path,
                )
                return
            self._take(found)
        except (PlainAclRefused, OSError) as error:
            if isinstance(error, OSError):
                if self._read is None:
                    return
                self._read = self._looked = None
            log.warning(
                "accounts are not taken, the last ones count file=%s: %s", self._path, error
            )

    def _look(self) -> tuple[int, ...]:
        facts = self._path.stat()
        return (facts.st_ino, facts.st_size, facts.st_mtime_ns)

    def _parsed(self, seen: tuple[int, ...]) -> PlainAcl:
        with self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS_WRITE:
                raise PlainAclRefused(str(self._path), _ANYBODY, "chmod go-w, and look who did")
            data = file.read(MAX_BYTES + 1)
        if self._look() != seen:  # half of a file may grant what its other half takes away
            raise PlainAclRefused(str(self._path), _CHANGING, "say so again when it is written")
        found = read_plain_acl(data, str(self._path))
        if found.doors and not self._white_lists_ignored:
            raise PlainAclRefused(str(self._path), found.doors, _WHITE_LISTS)
        return found

    def _take(self, found: PlainAcl) -> None:
        lender = str(self._path)
        # Rights that go, go before users that come: nobody has more than both versions say.
        self._policies.lend((each.policy for each in found.accounts), lender)
        self._users.lend((each.user for each in found.accounts), lender)
        for remark in (*found.doors, *found.remarks):
            log.warning("accounts file=%s %s", self._path, remark)
        weak = sum(each.is_weak for each in found.accounts)
        log.info(
            "accounts taken file=%s accounts=%d weak=%d", self._path, len(found.accounts), weak
        )

    def _has_super_of_its_own(self, found: PlainAcl) -> bool:
        """Whether one is left among those whom the server keeps."""
        names = {each.user.name for each in found.accounts}
        return any(
            user.is_super and user.is_enabled and user.name not in names
            for user in self._users.kept()
        )


_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ANYBODY: Final = (Remark(0, "can be written by others, who could become anybody"),)
_CHANGING: Final = (Remark(0, "was changed while it was read"),)
_WHITE_LISTS: Final = (
    "an address never stands for a login here: take these lines out, or set aclAllowWhiteList=true "
    "to start without what they say"
)


def _has_super(found: PlainAcl) -> bool:
    return any(each.user.is_super for each in found.accounts)
