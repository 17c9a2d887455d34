"""What operators and Apache's brokers are told of replicas."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker.support.group_status import LEADER, following, leading

from rocketpipe.broker.handlers.replication import ELECT_WITHIN_MS, NO_END, ReplicationHandlers
from rocketpipe.broker.replication.leading.followers import StillThere
from rocketpipe.broker.replication.role import LeaderPossible
from rocketpipe.broker.replication.status import (
    FollowingStatus,
    GroupView,
    Lacking,
    ReplicationStatus,
)
from rocketpipe.coordination.coordinator import CoordinatorAway, Leader
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import bounds_at, decode_frame
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.protocol.requests.replication import (
    ElectMaster,
    ExchangeHaInfo,
    ForgetReplica,
    GetController,
    GetEpochCache,
    GetHaStatus,
    GetSyncState,
    LeadAnyway,
    ResetMasterFlushOffset,
)
from rocketpipe.remoting.router import Router
from rocketpipe.testing.clock import ManualClock

GOLDEN = Path(__file__).parents[2] / "protocol" / "requests" / "golden" / "replication.json"


def frame(data: bytes) -> Command:
    bounds = bounds_at(data, 0, len(data))
    assert bounds is not None
    return decode_frame(data, bounds)


#: Requests of 5.5.0 as they were on the wire; an election takes another to win it.
CAPTURED = [
    frame(bytes.fromhex(each["request"]))
    for each in json.loads(GOLDEN.read_text())["exchanges"]
    if each["code"] in {906, 907, 908, 1005, 1006, 1007}
]


class Asked:
    """A replica's answers, over its router."""

    def __init__(self, status: ReplicationStatus) -> None:
        self.view = GroupView(lambda: self.status)
        self.status = status
        self.clock = ManualClock()
        self.router = Router(
            ReplicationHandlers("c", "broker-a", LEADER.address, self.view, self.clock)
        )

    async def ask(self, request: Request[Any]) -> Any:
        answer = await self.router.answer(to_command(request, 1), cast("Any", None))
        return read_reply(request, answer)

    async def refused(self, request: Request[Any]) -> tuple[int, str]:
        with pytest.raises(RequestRejected) as caught:
            await self.ask(request)
        return caught.value.code, str(caught.value)


@pytest.mark.parametrize("asked", CAPTURED, ids=lambda asked: str(asked.code))
async def test_a_leader_answers_what_apaches_brokers_and_tools_ask(asked: Command) -> None:
    answer = await Asked(leading()).router.answer(asked, cast("Any", None))
    assert (answer.code, answer.opaque) == (ResponseCode.SUCCESS, asked.opaque)


async def test_a_leader_tells_how_far_its_followers_are() -> None:
    status = (await Asked(leading()).ask(GetHaStatus())).status
    assert (status.leads, status.log_end, status.in_sync) == (True, 1000, 1)
    first, second = status.followers
    assert (first.address, first.acknowledged, first.lag) == ("127.0.0.1:40001", 1000, 0)
    assert (first.in_sync, first.bytes_per_second, first.transfer_from) == (True, 5, 1000)
    assert (second.lag, second.in_sync) == (100, False)


async def test_a_follower_tells_how_it_follows() -> None:
    asked = Asked(following())
    status = (await asked.ask(GetHaStatus())).status
    assert (status.leads, status.followers) == (False, ())
    told = status.following
    assert (told.master, told.log_end) == (LEADER.ha_address, 900)
    assert (told.last_read_ms, told.last_write_ms, told.bytes_per_second) == (11, 12, 0)
    assert told.master_flush_offset == 880
    assert told.refused is None
    refusing = FollowingStatus(master_ha=LEADER.ha_address, connected=False, refused="no route")
    asked.status = following(following=refusing)
    told = (await asked.ask(GetHaStatus())).status.following
    assert (told.master, told.refused) == (None, "no route")
    asked.status = following(following=None)
    lost = (await asked.ask(GetHaStatus())).status
    assert (lost.leads, lost.following.master, lost.following.log_end) == (False, None, 900)


async def test_how_fast_a_follower_takes_in_is_since_it_was_asked_last() -> None:
    asked = Asked(following())

    async def rate(total: int, after_ms: int) -> int:
        await asked.clock.advance(after_ms)
        now = asked.status.following
        assert now is not None
        asked.status = following(following=replace(now, bytes=total))
        found: int = (await asked.ask(GetHaStatus())).status.following.bytes_per_second
        return found

    assert await rate(2000, 2000) == 1000
    assert await rate(9999, 500) == 1000, "too soon to say"
    assert await rate(12_000, 500) == 10_000
    assert await rate(3000, 1000) == 3000, "of another leader"
    assert await rate(3000, 1000) == 0


async def test_a_leader_says_where_it_takes_followers_and_a_follower_takes_no_orders() -> None:
    asked = Asked(leading())
    reply = await asked.ask(ExchangeHaInfo())
    assert (reply.master_ha_address, reply.master_address) == (LEADER.ha_address, LEADER.address)
    assert reply.master_flush_offset == 990
    await asked.ask(ResetMasterFlushOffset(master_flush_offset=1))
    asked.status = following()
    assert (await asked.ask(ExchangeHaInfo())).master_address == LEADER.address
    code, text = await asked.refused(ExchangeHaInfo(master_ha_address="x:1"))
    assert (code, "decided elsewhere" in text) == (ResponseCode.SYSTEM_ERROR, True)
    code, text = await asked.refused(ResetMasterFlushOffset(master_flush_offset=1))
    assert (code, "nothing to reset" in text) == (ResponseCode.SYSTEM_ERROR, True)


async def test_epochs_end_where_the_next_begins() -> None:
    asked = Asked(following())
    cache = (await asked.ask(GetEpochCache())).cache
    assert (cache.cluster, cache.broker_name, cache.broker_id) == ("c", "broker-a", 2)
    assert [(each.epoch, each.start, each.end) for each in cache.epochs] == [
        (1, 0, 500),
        (3, 500, NO_END),
    ]
    assert cache.log_end == 900
    asked.status = following(epochs=())
    assert (await asked.ask(GetEpochCache())).cache.epochs == ()
    asked.status = leading(epochs=None)
    assert (await asked.refused(GetEpochCache()))[0] == ResponseCode.SYSTEM_ERROR


async def test_the_leader_answers_for_the_controller_that_there_is_not() -> None:
    asked = Asked(leading())
    reply = await asked.ask(GetController())
    assert (reply.controller_leader_address, reply.is_leader) == (LEADER.address, True)
    for names in (b'["broker-a"]', b'["other","broker-a"]', b"[]"):
        groups = (await asked.ask(GetSyncState(names=names))).replicas.groups
        told = groups["broker-a"]
        assert (told.leader_id, told.leader, told.epoch, told.set_epoch) == (
            1,
            LEADER.address,
            3,
            7,
        )
        assert [(each.id, each.address, each.alive) for each in told.in_sync] == [
            (1, LEADER.address, True),
            (2, "127.0.0.1:10921", True),
        ]
        assert [(each.id, each.alive) for each in told.others] == [(3, True)]
    assert (await asked.refused(GetSyncState(names=b'["b"]')))[0] == 2008
    for wrong in (b"{", b"{}", b"[1]", b"[" * 60_000):
        assert (await asked.refused(GetSyncState(names=wrong)))[0] == ResponseCode.INVALID_PARAMETER
    asked.status = following()
    code, text = await asked.refused(GetSyncState(names=b"[]"))
    assert code == ResponseCode.CONTROLLER_NOT_LEADER
    assert f"ask {LEADER.address}" in text
    asked.status = following(leader=None)
    assert "nobody leads" in (await asked.refused(GetSyncState(names=b"[]")))[1]
    assert (await asked.ask(GetController())).controller_leader_address is None


def elect(broker_id: int = -1, **changes: Any) -> ElectMaster:
    values = {"cluster_name": "c", "broker_name": "broker-a", "designate_elect": broker_id >= 0}
    return ElectMaster(broker_id=broker_id, **{**values, **changes})


@pytest.mark.parametrize(("asked_for", "named"), [(2, 2), (-1, None)])
async def test_another_leads_when_it_is_asked_for(asked_for: int, named: int | None) -> None:
    asked = Asked(leading())
    resigned: list[int | None] = []

    async def resign(to: int | None) -> None:
        resigned.append(to)
        asked.status = following(in_sync=frozenset({1, 2}))

    asked.view.resign = resign
    answering = asyncio.create_task(asked.ask(elect(asked_for)))
    await asked.clock.advance(100)
    assert not answering.done(), "the old one is still the only one that is known"
    asked.status = following(leader=None, in_sync=frozenset({1, 2}))
    await asked.clock.advance(100)
    assert not answering.done()
    successor = Leader(id=2, epoch=4, address="127.0.0.1:10921", ha_address="h")
    asked.status = following(leader=successor, in_sync=frozenset({1, 2}))
    await asked.clock.advance(100)
    reply = await answering
    assert resigned == [named]
    assert (reply.master_broker_id, reply.master_address) == (2, "127.0.0.1:10921")
    assert reply.master_epoch == 4
    assert reply.elected.in_sync == (1, 2)
    assert reply.elected.members.addresses[2] == "127.0.0.1:10921"


async def test_nobody_who_would_lose_something_is_made_to_lead() -> None:
    asked = Asked(leading())
    code, text = await asked.refused(elect(2))
    assert code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert "zookeeperAddr" in text

    async def resign(to: int | None) -> None:
        raise CoordinatorAway("no answer")

    asked.view.resign = resign
    code, text = await asked.refused(elect(3))
    assert code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert "not in sync" in text
    assert "beside the leader: 2" in text
    assert (await asked.refused(elect(1)))[0] == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    assert (await asked.refused(elect(2, broker_name="b")))[0] == 2008
    assert "no answer" in (await asked.refused(elect(2)))[1]
    asked.status = following()
    assert (await asked.refused(elect(2)))[0] == ResponseCode.CONTROLLER_NOT_LEADER


async def test_an_election_that_nobody_wins_is_told_of() -> None:
    asked = Asked(leading())

    async def resign(to: int | None) -> None:
        asked.status = following(leader=None)

    asked.view.resign = resign
    answering = asyncio.create_task(asked.refused(elect()))
    while not answering.done():
        await asked.clock.advance(1000)
    code, text = await answering
    assert code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert "within 10 s" in text
    assert asked.clock.monotonic_ms() >= ELECT_WITHIN_MS


async def test_a_replica_says_what_it_may_lack_before_it_leads_all_the_same() -> None:
    asked = Asked(following(leader=None))
    wish = LeadAnyway(broker_name="broker-a", broker_id=2, do_it=False)
    code, text = await asked.refused(wish)
    assert code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert "roles are fixed" in text
    told: list[bool] = []

    async def lead_anyway(do_it: bool) -> Lacking:
        told.append(do_it)
        return Lacking(
            log_end=900,
            last_epoch=3,
            in_sync=frozenset({2, 1}),
            unclean=frozenset({2}),
            ahead=frozenset(),
            epoch=4 if do_it else None,
        )

    asked.view.lead_anyway = lead_anyway
    reply = await asked.ask(wish)
    assert (reply.log_end, reply.last_epoch, reply.epoch) == (900, 3, None)
    assert (reply.in_sync, reply.unclean, reply.ahead) == ("1,2", "2", "")
    assert (await asked.ask(replace(wish, do_it=True))).epoch == 4
    assert told == [False, True]
    assert "this is replica 2" in (await asked.refused(replace(wish, broker_id=3)))[1]

    async def needless(do_it: bool) -> Lacking:
        raise LeaderPossible("replica 1 leads")

    asked.view.lead_anyway = needless
    code, text = await asked.refused(replace(wish, do_it=True))
    assert (code, "replica 1 leads" in text) == (ResponseCode.CONTROLLER_MASTER_STILL_EXIST, True)


async def test_a_replica_that_is_gone_is_forgotten_once_it_has_left_the_set() -> None:
    asked = Asked(leading())
    wish = ForgetReplica(broker_name="broker-a", broker_id=2)
    assert "no replicas" in (await asked.refused(wish))[1]
    forgotten: list[int] = []

    def forget(replica_id: int) -> None:
        if not forgotten:
            forgotten.append(replica_id)
            raise StillThere("replica 2 is there")

    asked.view.forget = forget
    assert "is there" in (await asked.refused(wish))[1]
    answering = asyncio.create_task(asked.ask(wish))
    await asked.clock.advance(100)
    assert not answering.done()
    asked.status = leading(in_sync=frozenset({1}))
    await asked.clock.advance(100)
    await answering
    assert forgotten == [2]
    assert (await asked.refused(replace(wish, broker_name="x")))[0] == 2008
    asked.status = following()
    assert (await asked.refused(wish))[0] == ResponseCode.CONTROLLER_NOT_LEADER
