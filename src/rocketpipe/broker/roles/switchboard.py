"""What peers are answered by while roles come and go: their connections stay."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.fast_path.fast_path import FastPath
from rocketpipe.broker.roles.duties import Role
from rocketpipe.clock import Clock, within
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import Language, ResponseCode
from rocketpipe.protocol.command import Command, refusal
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.request import Request
from rocketpipe.remoting.connection import PeerConnection

log = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT")

#: How long a request waits for the next role where one is sure to come; clients wait longer.
PATIENCE_MS: Final = 2500
#: How long a store that is to be closed is left open for those who read it.
DRAIN_MS: Final = 5000
#: So many that left meanwhile are known by name; whoever else did is found silent later.
MOST_LEFT: Final = 10_000


def _leave(data: bytes, peer: PeerConnection) -> int:
    return 0


class Switchboard:
    """Hands what peers ask to the role of the moment, and says no while there is none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._role: Role | None = None
        self._waiting: WaitingPulls | None = None
        self._reason = "it is starting"
        self._is_over = False
        #: Set unless requests wait for the next role.
        self._taken = asyncio.Event()
        self._taken.set()
        self._fast_path: FastPath | None = None
        #: Where reads go first, as `Lane` has it: looked up once a role, and used once a read.
        self.take_first: Callable[[bytes, PeerConnection], int] = _leave
        #: Who left while nobody was there to be told.
        self._left: deque[PeerConnection] = deque(maxlen=MOST_LEFT)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def connect(self, role: Role, waiting: WaitingPulls) -> None:
        """Answer by a role from now on."""
        self._role, self._waiting = role, waiting
        while self._left:
            role.clients.forget_peer(self._left.popleft())
        self.go_on()

    async def disconnect(self, reason: str) -> None:
        """Take nothing more for the role, and let it finish what it was asked."""
        role, waiting = self._role, self._waiting
        self._role, self._waiting, self._reason = None, None, reason
        self._turn_to(None)
        if role is not None and waiting is not None:
            await role.finish(waiting)

    async def drained(self) -> None:
        """Wait until nobody is answered any more by a role that was, so that its store may go."""
        if not await within(self._clock, DRAIN_MS, self._idle.wait()):
            log.warning("store is closed though %d answers are under way", self._under_way)

    def hold(self) -> None:
        """Have everybody wait for the next role: one is about to come."""
        self._taken.clear()
        self._turn_to(None)

    def go_on(self) -> None:
        """Have nobody wait any longer."""
        self._taken.set()
        self._turn_to(self._role)

    async def answer(self, command: Command, peer: PeerConnection) -> Command:
        """Answer a command as the role of this moment does."""
        try:
            role = await self._present()
        except RequestRejected as error:
            return refusal(command, error.code, error.remark)
        with self._answering():
            return await role.answer(command, peer)

    async def ask(
        self, asked: Request[ReplyT], peer: PeerConnection, by: Any, language: Language | None
    ) -> ReplyT:
        """Answer a request as the role of this moment does.

        Raises:
            RequestRejected: It is refused, or there is no role.
        """
        role = await self._present()
        with self._answering():
            return await role.ask(asked, peer, by, language)

    async def _present(self) -> Role:
        if not self._taken.is_set():
            await within(self._clock, PATIENCE_MS, self._taken.wait())
        if self._role is None:
            raise RequestRejected(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"service not available now: {self._reason}, ask again",
            )
        return self._role

    @contextmanager
    def _answering(self) -> Iterator[None]:
        self._under_way += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    def take_frames(self, buffer: bytes, frames: list[Frame], peer: PeerConnection) -> None:
        """Hand frames to the fast path of the role, where it has one and nothing holds it back."""
        if self._fast_path is None:
            peer.take(buffer, frames)
        else:
            self._fast_path.take_frames(buffer, frames, peer)

    def _turn_to(self, role: Role | None) -> None:
        self._fast_path = role.fast_path if role is not None else None
        self.take_first = _leave if self._fast_path is None else self._fast_path.take_first

    def forget_peer(self, peer: PeerConnection) -> None:
        """A connection ended."""
        if self._role is not None:
            self._role.clients.forget_peer(peer)
        elif not self._is_over:
            self._left.append(peer)

    async def finish(self) -> None:
        """Answer what was asked, as the broker closes."""
        self._taken.set()
        self._is_over = True
        self._left.clear()
        await self.disconnect("it is stopping")
