"""Peers are answered by the role of the moment, and wait where the next one is sure to come."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.waiting import until

from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.roles.duties import Role
from rocketpipe.broker.roles.switchboard import DRAIN_MS, PATIENCE_MS, Switchboard
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.testing.clock import ManualClock

ASK = Command(code=10, opaque=1)


class Peer:
    """A connection, as far as a board looks at it."""

    def __init__(self) -> None:
        self.taken: list[object] = []

    def take(self, buffer: bytes, frames: list[object]) -> None:
        self.taken += frames


class Serving:
    """A role that answers with its code, once it is let to."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.lets = asyncio.Event()
        self.lets.set()
        self.asked = 0
        self.finished = 0
        self.lane: list[object] = []
        self.gone: list[object] = []
        self.clients = self
        self.fast_path = self

    async def answer(self, command: Command, peer: object) -> Command:
        self.asked += 1
        await self.lets.wait()
        return Command(code=self.code, opaque=command.opaque)

    async def ask(self, asked: object, *_: object) -> object:
        self.asked += 1
        return asked

    def take_first(self, data: bytes, peer: object) -> int:
        self.lane.append(data)
        return len(data)

    def take_frames(self, buffer: bytes, frames: list[object], peer: object) -> None:
        self.lane.extend(frames)

    async def finish(self, waiting: WaitingPulls) -> None:
        self.finished += 1

    def forget_peer(self, peer: object) -> None:
        self.gone.append(peer)


class Board:
    """A board, with what a test would have to cast again and again."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.board = Switchboard(self.clock)
        self.peer = Peer()

    def connect(self, code: int) -> Serving:
        serving = Serving(code)
        self.board.connect(cast("Role", serving), WaitingPulls(self.clock))
        return serving

    async def ask(self) -> Command:
        return await self.board.answer(ASK, cast("Any", self.peer))

    def read(self) -> None:
        if not self.board.take_first(b"data", cast("Any", self.peer)):
            self.board.take_frames(b"", [cast("Any", "frame")], cast("Any", self.peer))
        else:
            self.board.take_frames(b"", [cast("Any", "another")], cast("Any", self.peer))


@pytest.fixture
def board() -> Board:
    return Board()


async def test_without_a_role_peers_hear_why(board: Board) -> None:
    answer = await board.ask()
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "it is starting" in (answer.remark or "")
    role = board.connect(7)
    assert (await board.ask()).code == 7
    await board.board.disconnect("its log is being changed")
    assert role.finished == 1
    assert "its log is being changed" in ((await board.ask()).remark or "")


async def test_requests_of_this_process_go_the_same_way(board: Board) -> None:
    asked: Any = "asked"
    with pytest.raises(RequestRejected, match="it is starting"):
        await board.board.ask(asked, cast("Any", board.peer), None, None)
    role = board.connect(7)
    assert await board.board.ask(asked, cast("Any", board.peer), None, None) == "asked"
    assert role.asked == 1


async def test_who_comes_while_a_role_is_about_to_be_there_is_answered_by_it(board: Board) -> None:
    before = board.connect(1)
    board.board.hold()
    asking = asyncio.create_task(board.ask())
    await asyncio.sleep(0)
    await board.board.disconnect("it is about to lead")
    board.connect(2)
    assert (await asking).code == 2
    assert not before.asked


async def test_nobody_waits_longer_than_clients_do(board: Board) -> None:
    board.board.hold()
    asking = asyncio.create_task(board.ask())
    await until(lambda: board.clock._sleepers)
    await board.clock.advance(PATIENCE_MS - 1)
    assert not asking.done()
    await board.clock.advance(1)
    assert (await asking).code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_when_no_role_comes_all_are_told(board: Board) -> None:
    board.connect(1)
    board.board.hold()
    asking = asyncio.create_task(board.ask())
    await asyncio.sleep(0)
    board.board.go_on()
    assert (await asking).code == 1


async def test_the_fast_path_is_the_role_s_unless_somebody_waits_for_another(board: Board) -> None:
    board.read()
    assert len(board.peer.taken) == 1
    role = board.connect(1)
    board.read()
    assert (len(board.peer.taken), role.lane) == (1, [b"data", "another"])
    board.board.hold()
    board.read()
    assert (len(board.peer.taken), len(role.lane)) == (2, 2)


async def test_a_store_is_left_open_for_those_who_read_it(board: Board) -> None:
    role = board.connect(1)
    role.lets.clear()
    asking = asyncio.create_task(board.ask())
    await until(lambda: role.asked)
    await board.board.disconnect("its log is being changed")
    draining = asyncio.create_task(board.board.drained())
    await asyncio.sleep(0)
    assert not draining.done()
    role.lets.set()
    await draining
    assert (await asking).code == 1


async def test_but_not_for_ever(board: Board, caplog: pytest.LogCaptureFixture) -> None:
    role = board.connect(1)
    role.lets.clear()
    asking = asyncio.create_task(board.ask())
    await until(lambda: role.asked)
    draining = asyncio.create_task(board.board.drained())
    await until(lambda: board.clock._sleepers)
    await board.clock.advance(DRAIN_MS)
    await draining
    assert "1 answers are under way" in caplog.text
    role.lets.set()
    await asking


async def test_the_next_role_hears_who_left_meanwhile(board: Board) -> None:
    board.board.forget_peer(cast("Any", "early"))
    role = board.connect(1)
    board.board.forget_peer(cast("Any", "late"))
    assert role.gone == ["early", "late"]
    await board.board.finish()
    board.board.forget_peer(cast("Any", "last"))
    assert board.connect(2).gone == []


async def test_as_the_broker_closes_nobody_waits(board: Board) -> None:
    board.board.hold()
    asking = asyncio.create_task(board.ask())
    await asyncio.sleep(0)
    await board.board.finish()
    assert "it is stopping" in ((await asking).remark or "")
