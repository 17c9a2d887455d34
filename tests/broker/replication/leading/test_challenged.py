"""A connection that has to prove that it may follow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tests.auth.conftest import make_gate

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserStatus, UserType
from rocketpipe.background import running
from rocketpipe.broker.replication.challenge import MAGIC, FollowerAnswers
from rocketpipe.broker.replication.leading.challenged import (
    WATCH_EVERY_MS,
    Challenged,
    Doorkeeper,
)
from rocketpipe.testing.clock import ManualClock


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self, host: str = "10.0.0.7") -> None:
        super().__init__({"peername": (host, 4000)})
        self.sent = b""
        self.aborted = False
        self.protocol: Any = None

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


class Peer(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: Any = None
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data


class Meeting:
    def __init__(self, keeper: Doorkeeper, host: str = "10.0.0.7") -> None:
        self.wire, self.peer = Wire(host), Peer()
        self.reasons: list[str] = []
        self.entered: list[None] = []
        self.challenged = Challenged(
            self.peer,
            keeper,
            entered=lambda: self.entered.append(None),
            refuse=lambda _, reason: self.reasons.append(reason),
        )
        self.challenged.connection_made(self.wire)


def keeper(*plain_from: str) -> Doorkeeper:
    return Doorkeeper(make_gate(), plain_from)


def root() -> Credentials:
    user = make_gate().users.get("root")
    assert user is not None
    return Credentials("root", user.secret)


async def test_who_proves_it_gets_through_with_what_came_behind() -> None:
    meeting, answers = Meeting(keeper()), FollowerAnswers(root())
    meeting.challenged.data_received(answers.hello())
    assert meeting.peer.transport is None
    meeting.challenged.data_received(answers.receive(meeting.wire.sent) + b"behind it")
    answers.receive(meeting.wire.sent[40:])
    assert answers.is_done
    assert meeting.wire.protocol is meeting.peer
    assert meeting.peer.data == b"behind it"
    assert (meeting.entered, meeting.reasons) == ([None], [])


async def test_users_without_rights_and_disabled_ones_are_refused() -> None:
    gate = make_gate()
    root_user = gate.users.get("root")
    assert root_user is not None
    gate.users.put(replace(root_user, status=UserStatus.DISABLE))
    for each in gate.users.all():
        meeting = Meeting(Doorkeeper(gate))
        answers = FollowerAnswers(Credentials(each.name, each.secret))
        meeting.challenged.data_received(answers.hello())
        meeting.challenged.data_received(answers.receive(meeting.wire.sent))
        assert meeting.wire.aborted
        assert len(meeting.wire.sent) == 40
        assert meeting.peer.transport is None
        assert len(meeting.reasons) == 1
    assert gate.failures.totals == {"no follower": len(gate.users)}


async def test_a_named_address_is_taken_as_it_is_and_no_other() -> None:
    meeting = Meeting(keeper("10.0.0.0/24", "::1"))
    meeting.challenged.data_received((0).to_bytes(8, "big"))
    assert meeting.peer.transport is meeting.wire
    assert meeting.peer.data == bytes(8)
    assert meeting.wire.sent == b""
    # One of ours proves who it is there too, so that the setting can go, replica by replica.
    ours, answers = Meeting(keeper("10.0.0.0/24")), FollowerAnswers(root())
    ours.challenged.data_received(answers.hello())
    ours.challenged.data_received(answers.receive(ours.wire.sent))
    assert ours.peer.transport is ours.wire
    assert len(ours.wire.sent) == 72
    elsewhere = Meeting(keeper("10.0.1.0/24"))
    elsewhere.challenged.data_received((0).to_bytes(8, "big"))
    assert elsewhere.wire.aborted


async def test_one_that_has_to_make_room_or_leaves_is_over() -> None:
    meeting = Meeting(keeper())
    meeting.challenged.data_received(MAGIC)
    meeting.challenged.abort()
    assert meeting.wire.aborted
    meeting.challenged.data_received(b"more")
    meeting.challenged.connection_lost(None)
    assert meeting.reasons == []
    leaving = Meeting(keeper())
    leaving.challenged.connection_lost(None)
    assert leaving.reasons == ["it left before it had proven who it is"]


async def test_who_may_follow_no_more_is_sent_away_though_it_came_before() -> None:
    gate, clock = make_gate(), ManualClock()
    king = User(name="king", secret=Secret("the-secret-of-king"), type=UserType.SUPER)
    gate.users.put(king)
    doorkeeper = Doorkeeper(gate)
    stays, goes = Meeting(doorkeeper), Meeting(doorkeeper)
    for meeting, who in ((stays, root()), (goes, Credentials("king", king.secret))):
        answers = FollowerAnswers(who)
        meeting.challenged.data_received(answers.hello())
        meeting.challenged.data_received(answers.receive(meeting.wire.sent))
        assert meeting.wire.protocol is meeting.peer
    async with running(doorkeeper.keep_watching(clock), "watching"):
        await clock.advance(WATCH_EVERY_MS)
        assert not goes.wire.aborted
        gate.users.put(replace(king, status=UserStatus.DISABLE))
        await clock.advance(WATCH_EVERY_MS)
        assert (stays.wire.aborted, goes.wire.aborted) == (False, True)
