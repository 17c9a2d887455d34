"""Every code that servers answer, asked by everybody: no handler runs for those who may not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.auth.any_request import any_request
from tests.auth.test_needs import _EVERYBODY, _READER, _WRITER
from tests.scenarios.test_access_control import ROOT, Place, exchange, place, send, written

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.needs import NEEDS
from rocketpipe.auth.secret import Secret
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.protocol.requests.users import UpdateUser, UserInfo
from rocketpipe.remoting.router import Call, Router

__all__ = ["place"]

RAN = "the handler ran"
WHO = ["unnamed", "unknown", "disabled", "forger", "nobody", "reader", "writer", "operator", "root"]


class Watch:
    """In the place of handlers, once it is on: says that they would have run."""

    def __init__(self) -> None:
        self.on = False
        self.routers: list[Router] = []

    def instead(self, method: Callable[[Any, Call], Awaitable[Any]]) -> Any:
        async def watched(request: Request[Any], call: Call) -> Any:
            if self.on:
                raise RequestRejected(ResponseCode.SYSTEM_ERROR, RAN)
            return await method(request, call)

        return watched


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Asked for before ``place``: it is there before the servers are."""
    watch, make = Watch(), Router.__init__

    def watched(self: Router, *groups: object, **named: Any) -> None:
        make(self, *groups, **named)
        self._methods = {
            code: (kind, watch.instead(method)) for code, (kind, method) in self._methods.items()
        }
        watch.routers.append(self)

    monkeypatch.setattr(Router, "__init__", watched)
    return watch


def may(who: str, kind: type[Request[Any]]) -> bool:
    named = {
        "nobody": _EVERYBODY,
        # The message at the place that is asked about is one of the topic.
        "reader": _EVERYBODY | _READER | {"ViewMessageById"},
        "writer": _EVERYBODY | _WRITER | {"EndTransaction"},
    }
    if who in ("unnamed", "unknown", "disabled", "forger"):
        return False
    return kind.__name__ in named[who] if who in named else True


async def signed_by(who: str, place: Place) -> Credentials | None:
    match who:
        case "unnamed":
            return None
        case "unknown":
            return Credentials("unknown", Secret("the-secret-of-unknown"))
        case "root":
            return ROOT
        case "forger":
            await place.user("forger", Topic="*:All", Group="*:All", Cluster="*:All")
            return Credentials("forger", Secret("not-the-secret-of-forger"))
        case "operator" | "disabled":
            made = await place.user(who, Topic="*:All", Group="*:All", Cluster="*:All")
        case "reader":
            made = await place.user(who, Topic="orders:Sub", Group="readers:Sub")
        case "writer":
            made = await place.user(who, Topic="orders:Pub", Group="app:Pub")
        case _:
            made = await place.user(who)
    if who == "disabled":
        for at in (place.broker, place.name_server):
            change = UpdateUser(username=who, user=UserInfo(user_status="disable"))
            await place.ask(change, ROOT, at)
    return made


@pytest.mark.parametrize("who", WHO)
async def test_no_handler_runs_for_those_who_may_not(who: str, watch: Watch, place: Place) -> None:
    by = await signed_by(who, place)
    served = [router for router in watch.routers if router._guard is not None]
    assert len(served) >= 2, "both servers are guarded"
    codes = {code: kind for kind in NEEDS for code in kind.codes}
    assert all(router.codes <= codes.keys() for router in served)
    await place.ask(send(), ROOT)  # what comes next may take the fast path
    watch.on = True
    for address in (place.broker, place.name_server):
        for code, kind in codes.items():
            command = to_command(any_request(kind), 1)
            command = Command(code=int(code), opaque=1, fields=command.fields, body=command.body)
            frame = encode_frame(by.sign(command) if by is not None else command)
            try:
                (answer,) = await exchange(address, frame)
            except (asyncio.IncompleteReadError, ConnectionResetError):
                assert not may(who, kind), (who, kind)
                continue  # after so many in vain nothing is said any more
            if may(who, kind):
                assert answer.code != ResponseCode.NO_PERMISSION, (who, kind, answer.remark)
            else:
                assert answer.remark != RAN, (who, kind)
                assert answer.code in (
                    ResponseCode.NO_PERMISSION,
                    # Whoever is known may learn that there is no such request.
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    # Nor is it one, under a code that has other fields.
                    ResponseCode.SYSTEM_ERROR,
                ), (who, kind, answer.remark)
    # A fast path is no way around: where it may be taken, it is.
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
        await exchange(place.broker, *(written(send(), number, by) for number in range(3)))
    assert (place.core.store.max_offset("orders", 0) > 1) == may(who, SendMessage)
