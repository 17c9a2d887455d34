"""Requests that reach a follower and are the leader's to answer: passed on, and its answer back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rocketpipe.coordination.coordinator import Leader
from rocketpipe.errors import RemoteProtocolError, RequestRejected, RocketPipeError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command, refusal
from rocketpipe.protocol.refusals import naming_leader
from rocketpipe.protocol.request import Request, from_command, to_reply
from rocketpipe.remoting.caller import Caller

#: As long as clients wait for a send by default.
WITHIN_MS: Final = 3000
#: So many at once: whoever comes then asks the leader itself.
MOST: Final = 10_000


class PassOn:
    """Asks the leader what a peer asked here."""

    def __init__(self, caller: Caller, leader: Callable[[], Leader | None]) -> None:
        self._caller = caller
        self._leader = leader
        self._under_way = 0

    async def answer(self, kind: type[Request[Any]], command: Command) -> Command:
        """Answer a command with what the leader says to it."""
        leader = self._leader()
        if leader is None or not leader.address or self._under_way >= MOST:
            remark = naming_leader(
                "service not available now: the leader cannot be asked from here",
                leader.address if leader is not None else None,
            )
            return refusal(command, ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        self._under_way += 1
        try:
            asked = from_command(kind, command)
            return to_reply(command, await self._caller.call(leader.address, asked, WITHIN_MS))
        except RequestRejected as error:
            return refusal(command, error.code, error.remark)
        except RemoteProtocolError as error:
            return refusal(command, ResponseCode.SYSTEM_ERROR, str(error))
        except RocketPipeError as error:
            return refusal(
                command,
                ResponseCode.SERVICE_NOT_AVAILABLE,
                # Not named as the leader is elsewhere: it may have stored something.
                f"passed on to the leader at {leader.address}, which did not answer: {error}",
            )
        finally:
            self._under_way -= 1
