"""Servers with users, as an admin asks them: their handlers on tables in memory."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from rocketpipe.auth.gate import Gate, Principal
from rocketpipe.auth.handlers import UserHandlers
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserType
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.client.admin.access.policies import PolicyAdmin
from rocketpipe.client.admin.access.users import UserAdmin
from rocketpipe.errors import ConnectionLost, rejection
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.remoting.router import Call

ReplyT = TypeVar("ReplyT")
ROOT = User(name="root", secret=Secret("roots-secret-text"), type=UserType.SUPER)


class Guarded:
    """As many servers as there are waves of names; ``plain`` ones have no access control."""

    def __init__(self, *waves: str, plain: str = "") -> None:
        self._waves = [wave.split() for wave in waves] or [["a", "b"]]
        self._plain = plain.split()
        self.down: set[str] = set()
        #: Requests that a server says yes to, and does nothing about.
        self.lies: dict[str, type] = {}
        self.asked: list[tuple[str, Request[Any]]] = []
        self.gates = {
            name: Gate(UserTable.in_memory(ROOT), PolicyTable.in_memory())
            for wave in self._waves
            for name in wave
            if name not in self._plain
        }
        self.users = UserAdmin(self)
        self.policies = PolicyAdmin(self, self.users)

    async def waves(self) -> list[list[str]]:
        return self._waves

    def at(self, servers: Mapping[str, str]) -> Guarded:
        raise NotImplementedError

    async def call(self, server: str, request: Request[ReplyT]) -> ReplyT:
        self.asked.append((server, request))
        if server in self.down:
            raise ConnectionLost(server, "it is down")
        if server in self._plain:
            raise rejection(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type not supported")
        if self.lies.get(server) is type(request):
            return cast("ReplyT", None)
        for _, method in inspect.getmembers(UserHandlers(self.gates[server]), inspect.ismethod):
            if getattr(method, "handled_request", None) is type(request):
                by = Principal("root", is_super=True, address="1.2.3.4:5", host="1.2.3.4")
                try:
                    reply: ReplyT = await method(
                        request, Call(cast("Any", None), to_command(request, 1), by)
                    )
                except Exception as error:
                    if hasattr(error, "remark"):
                        raise rejection(error.code, error.remark) from None  # as from the wire
                    raise
                return reply
        raise AssertionError(f"nobody answers {request}")

    def user(self, server: str, name: str) -> User | None:
        return self.gates[server].users.get(name)
