"""Moving groups, against a real store and members that keep what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.features.administration.offset_resets import Resets
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.consumer_group import Client, Consuming
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.errors import ConnectionLost
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeType, MessageModel
from rocketpipe.protocol.codes import Language, PeerVersion
from rocketpipe.protocol.requests.callbacks import ResetConsumerClientOffset, read_reset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
START_MS = 1_700_000_000_000
QUEUE = MessageQueue(topic="t", broker_name="b", queue_id=0)


class Peer:
    """A connection that keeps what it is told, or is gone."""

    def __init__(self, *, gone: bool = False) -> None:
        self.told: list[ResetConsumerClientOffset] = []
        self._gone = gone

    def tell(self, request: ResetConsumerClientOffset) -> None:
        if self._gone:
            raise ConnectionLost("somewhere", "it is gone")
        self.told.append(request)


class Parts:
    """A queue of three messages, a second apart."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock(START_MS)
        self.store = MessageStore.open(
            StoreConfig.embedded(root),
            disk=Disk(),
            clock=self.clock,
            store_host=HOST,
            threads=False,
        )
        self.offsets = OffsetTable()
        self.clients = ClientTable()
        self.waiting = WaitingPulls(self.clock)
        self.resets = Resets(self.store, self.offsets, self.clients, self.waiting, self.clock)

    async def fill(self) -> None:
        for _ in range(3):
            put = Put(
                topic="t",
                queue_id=0,
                body=b"x",
                properties=b"",
                flag=0,
                sys_flag=0,
                born_ms=1,
                born_host=HOST,
            )
            self.store.append([[put]])
            self.store.dispatch()
            await self.clock.advance(1000)

    def join(self, peer: Peer, language: Language, version: int, **how: Any) -> None:
        client = Client(
            connection=peer, client_id=f"{id(peer)}", language=language, version=version
        )
        self.clients.join("g", client, Consuming(**how), 0)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.store.close()


async def test_a_moment_is_a_place_in_the_queue(parts: Parts) -> None:
    assert parts.resets.at_time("t", 0, START_MS) == 0
    await parts.fill()
    assert parts.resets.at_time("t", 0, 0) == 0
    assert parts.resets.at_time("t", 0, START_MS + 1000) == 1
    assert parts.resets.at_time("t", 0, START_MS + 60_000) == 3
    assert parts.resets.at_time("t", 0, -1) == 3


async def test_a_group_without_members_is_moved_in_the_table_alone(parts: Parts) -> None:
    parts.resets.apply("g", "t", {0: QueueOffset(2)})
    assert parts.offsets.committed("g", "t", 0) == 2
    assert not parts.offsets.resets
    parts.offsets.commit("g", "t", 0, QueueOffset(1))
    assert parts.offsets.committed("g", "t", 0) == 1


async def test_what_a_member_commits_before_it_knows_does_not_undo_a_reset(parts: Parts) -> None:
    parts.join(Peer(), Language.JAVA, PeerVersion.V5_3_3)
    parts.offsets.commit("g", "t", 0, QueueOffset(3))
    parts.resets.apply("g", "t", {0: QueueOffset(0)})
    parts.offsets.commit("g", "t", 0, QueueOffset(3))
    assert parts.offsets.committed("g", "t", 0) == 0
    assert parts.offsets.reset_to("g", "t", 0, 3) == 0
    assert parts.offsets.reset_to("g", "t", 0, 3) is None
    parts.offsets.commit("g", "t", 0, QueueOffset(1))
    assert parts.offsets.committed("g", "t", 0) == 1


async def test_a_pull_that_is_there_already_is_not_moved(parts: Parts) -> None:
    parts.join(Peer(), Language.PYTHON, PeerVersion.V5_3_1)
    parts.resets.apply("g", "t", {0: QueueOffset(1)})
    assert parts.offsets.reset_to("g", "t", 0, 1) is None
    assert not parts.offsets.resets


async def test_a_pull_that_waits_is_woken(parts: Parts) -> None:
    parts.join(Peer(), Language.JAVA, PeerVersion.V5_3_3)
    waiting = asyncio.ensure_future(
        parts.waiting.grown("t", 0, 3, wait_ms=60_000, matches=lambda _: True)
    )
    await asyncio.sleep(0)
    parts.resets.apply("g", "t", {0: QueueOffset(0)})
    async with asyncio.timeout(PATIENCE_S):
        await waiting


async def test_without_leave_to_skip_nothing_moves_forward(parts: Parts) -> None:
    parts.offsets.commit("g", "t", 0, QueueOffset(1))
    wanted = {0: QueueOffset(3), 1: QueueOffset(5)}
    assert parts.resets.not_ahead("g", "t", wanted) == {0: 1, 1: 5}
    assert parts.resets.not_ahead("g", "t", {0: QueueOffset(0)}) == {0: 0}


async def test_each_is_told_in_the_form_that_it_reads(parts: Parts) -> None:
    old, cpp, gone, new = Peer(), Peer(), Peer(gone=True), Peer()
    parts.join(old, Language.JAVA, PeerVersion.V4_9_8)
    parts.join(cpp, Language.CPP, PeerVersion.V4_6_0)
    parts.join(gone, Language.GO, PeerVersion.V4_6_0)
    parts.join(new, Language.JAVA, PeerVersion.V5_3_3)
    parts.resets.tell("g", "t", -1, {QUEUE: 2})
    assert not new.told, "its pulls tell it"
    for peer, begins in ((old, b'{"offsetTable":{{'), (cpp, b'{"offsetTable":[{')):
        (told,) = peer.told
        assert told.body.startswith(begins)
        assert read_reset(told.body) == {QUEUE: 2}
        assert (told.group, told.topic, told.is_force) == ("g", "t", True)


async def test_members_of_a_broadcast_group_know_by_being_told_alone(parts: Parts) -> None:
    peer = Peer()
    parts.join(peer, Language.JAVA, PeerVersion.V5_3_3, model=MessageModel.BROADCASTING)
    parts.resets.apply("g", "t", {0: QueueOffset(2)})
    parts.resets.tell("g", "t", -1, {QUEUE: 2})
    assert parts.offsets.committed("g", "t", 0) is None
    assert len(peer.told) == 1


async def test_nobody_waits_for_the_pulls_of_a_group_that_has_gone(parts: Parts) -> None:
    peer = Peer()
    parts.join(peer, Language.JAVA, PeerVersion.V5_3_3)
    parts.resets.apply("g", "t", {0: QueueOffset(1)})
    keeping = asyncio.ensure_future(parts.resets.keep_bounded())
    await asyncio.sleep(0)
    await parts.clock.advance(10_000)
    assert parts.offsets.resets
    parts.clients.disconnect(peer)
    await parts.clock.advance(10_000)
    assert not parts.offsets.resets
    keeping.cancel()


async def test_who_pops_is_moved_by_the_table(parts: Parts) -> None:
    how = {"consume_type": ConsumeType.CONSUME_POP}
    parts.join(Peer(), Language.JAVA, PeerVersion.V5_3_3, **how)
    parts.resets.apply("g", "t", {0: QueueOffset(1)})
    assert not parts.offsets.resets
    assert parts.offsets.committed("g", "t", 0) == 1
