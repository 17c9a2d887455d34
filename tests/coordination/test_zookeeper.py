"""Elections through a real ZooKeeper: versions, sessions, killed and stopped holders."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.coordination.support.holder import Holder, holder
from tests.waiting import until

from rocketpipe.clock import SystemClock
from rocketpipe.coordination.coordinator import (
    CoordinatorAway,
    Fenced,
    GroupState,
    IdTaken,
    Leader,
    Member,
    NotInSync,
)
from rocketpipe.coordination.zookeeper import ZkCoordinator
from rocketpipe.coordination.zookeeper_server import ZooKeeperNotFound, find_jars
from rocketpipe.testing.ensemble import Ensemble, ensemble, free_ports

pytestmark = pytest.mark.scenario

SESSION_MS = 1_000


class Told:
    """A coordinator, and what it told."""

    def __init__(self, coordinator: ZkCoordinator) -> None:
        self.coordinator = coordinator
        self.states: list[GroupState] = []
        self.lost = 0
        coordinator.watch(self.states.append, self._lost)

    def _lost(self) -> None:
        self.lost += 1


Start = Callable[..., Awaitable[Told]]


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> str:
    return request.node.name


@pytest.fixture
async def start(zookeeper: Ensemble, cluster: str) -> AsyncIterator[Start]:
    started: list[Told] = []

    async def one(session_ms: int = SESSION_MS) -> Told:
        coordinator = ZkCoordinator(
            zookeeper.hosts, cluster, "group", session_ms=session_ms, clock=SystemClock()
        )
        await coordinator.start()
        started.append(Told(coordinator))
        return started[-1]

    yield one
    for each in started:
        await each.coordinator.close()


def member(id_: int, **more: object) -> Member:
    fields = {"address": f"replica-{id_}", "ha_address": f"replica-{id_}-ha"} | more
    return Member(id=id_, **fields)  # type: ignore[arg-type]


async def test_the_first_to_ask_leads_and_the_slower_one_is_fenced(start: Start) -> None:
    one, two = await start(), await start()
    await one.coordinator.join(member(1))
    seen = await two.coordinator.join(member(2, log_end=5, last_epoch=3, clean=False))
    assert seen.members == {1: member(1), 2: member(2, log_end=5, last_epoch=3, clean=False)}
    lead = await one.coordinator.campaign(seen, frozenset({1}))
    assert lead.leader.epoch == 4, "above every epoch that a member knows"
    with pytest.raises(Fenced):
        await two.coordinator.campaign(seen, frozenset({2}))
    await until(lambda: two.states and two.states[-1].leader == lead.leader)
    assert await two.coordinator.state() == lead.state
    with pytest.raises(NotInSync):
        await two.coordinator.campaign(lead.state, frozenset({1, 2}))


async def test_a_set_changes_only_from_what_was_seen_by_the_leader_of_the_epoch(
    start: Start,
) -> None:
    one, two = await start(), await start()
    await two.coordinator.join(member(2))
    first = await one.coordinator.campaign(await one.coordinator.join(member(1)), frozenset({1}))
    grown = await one.coordinator.change_in_sync(first, first.state, frozenset({1, 2}))
    assert await two.coordinator.state() == grown
    with pytest.raises(Fenced, match="isr"):
        await one.coordinator.change_in_sync(first, first.state, frozenset({1}))
    await one.coordinator.close()
    await until(lambda: two.states and two.states[-1].leader is None)
    second = await two.coordinator.campaign(await two.coordinator.state(), frozenset({2}))
    with pytest.raises(Fenced, match="epoch"):  # by the newest set, in an epoch that is over
        await two.coordinator.change_in_sync(first, second.state, frozenset({1}))
    assert (await two.coordinator.state()).in_sync == {2}


async def test_who_resigns_names_a_successor_and_resigns_once(start: Start) -> None:
    one, two = await start(), await start()
    lead = await one.coordinator.campaign(await one.coordinator.join(member(1)), frozenset({1}))
    seen = await two.coordinator.join(member(2))
    await one.coordinator.change_in_sync(lead, seen, frozenset({1, 2}))
    await one.coordinator.resign(lead, to=2)
    with pytest.raises(Fenced):
        await one.coordinator.resign(lead)
    seen = await two.coordinator.state()
    assert (seen.leader, seen.successor, seen.epoch) == (None, 2, 1)
    won = await two.coordinator.campaign(seen, frozenset({1, 2}))
    assert (await one.coordinator.state()).successor is None
    assert won.leader.epoch == 2


async def test_who_leads_without_knowing_it_wins_again_and_nobody_else_does(
    start: Start,
) -> None:
    one, two = await start(), await start()
    await two.coordinator.join(member(2))
    seen = await one.coordinator.join(member(1))
    await one.coordinator.campaign(seen, frozenset({1}))  # and the answer gets lost
    seen = await one.coordinator.state()
    other = Leader(id=2, epoch=2, address="replica-2", ha_address="replica-2-ha")
    with pytest.raises(Fenced):
        await two.coordinator._session.timed(
            two.coordinator._campaign(two.coordinator._session.live(), seen, other, frozenset({1}))
        )
    again = await one.coordinator.campaign(seen, frozenset({1}))
    assert again.leader.epoch == 2


async def test_a_process_that_is_started_again_leads_before_its_old_session_is_over(
    start: Start,
) -> None:
    killed, other, again = await start(60_000), await start(), await start()
    lead = await killed.coordinator.campaign(
        await killed.coordinator.join(member(1)), frozenset({1})
    )
    seen = await other.coordinator.join(member(2))
    assert seen.leader == lead.leader
    won = await again.coordinator.campaign(await again.coordinator.join(member(1)), frozenset({1}))
    assert won.leader.epoch == 2
    with pytest.raises(Fenced):
        await killed.coordinator.change_in_sync(lead, lead.state, frozenset({1, 2}))


async def test_a_group_that_somebody_removed_is_made_again(start: Start, cluster: str) -> None:
    one = await start()
    lead = await one.coordinator.campaign(await one.coordinator.join(member(1)), frozenset({1}))
    client = one.coordinator._session.live()
    await asyncio.to_thread(client.delete, f"/rocketpipe/{cluster}/group", recursive=True)
    assert await one.coordinator.state() == GroupState()
    with pytest.raises(Fenced):
        await one.coordinator.change_in_sync(lead, lead.state, frozenset({1, 2}))
    seen = await one.coordinator.join(member(1, last_epoch=1))
    assert seen.is_forgotten
    again = await one.coordinator.campaign(seen, frozenset({1}))
    assert again.leader.epoch == 2


async def test_ids_are_given_once(start: Start) -> None:
    one, two = await start(), await start()
    assert [
        await one.coordinator.id_for("a"),
        await two.coordinator.id_for("b"),
        await one.coordinator.id_for("c"),
    ] == [1, 2, 3]


async def test_an_id_that_somebody_has_is_not_given_out_again(start: Start, cluster: str) -> None:
    one, new = await start(), await start()
    await one.coordinator.join(member(await one.coordinator.id_for("one")))
    client = one.coordinator._session.live()
    await asyncio.to_thread(client.delete, f"/rocketpipe/{cluster}/group/ids", recursive=True)
    assert await new.coordinator.id_for("new") == 2


async def test_an_id_of_two_addresses_is_an_error_and_an_own_old_record_is_not(
    start: Start,
) -> None:
    one, two, again = await start(), await start(), await start()
    await one.coordinator.join(member(1))
    joining = asyncio.create_task(two.coordinator.join(member(1, address="elsewhere")))
    seen = await again.coordinator.join(member(1, log_end=7))  # the same place, a new process
    assert seen.members[1].log_end == 7
    with pytest.raises(IdTaken, match="replica-1"):
        await joining
    await again.coordinator.close()
    assert (await two.coordinator.join(member(1, address="elsewhere"))).members.keys() == {1}


async def test_an_ensemble_that_is_away_is_said_to_be_away(start: Start) -> None:
    (port,) = free_ports(1)
    away = ZkCoordinator(
        [f"127.0.0.1:{port}"], "c", "g", session_ms=SESSION_MS, clock=SystemClock()
    )
    await away.start()
    with pytest.raises(CoordinatorAway, match=str(port)):
        await away.join(member(1))
    with pytest.raises(CoordinatorAway, match=str(port)):
        await away.state()
    await away.close()


async def test_a_node_that_holds_something_else_is_named(start: Start) -> None:
    one = await start()
    await one.coordinator.join(member(1))
    session = one.coordinator._session
    path = f"{one.coordinator._base}/isr"
    await session.ask(session.live().set_async(path, b"[" * 100_000))
    with pytest.raises(CoordinatorAway, match=r"isr holds something that is not RocketPipe's"):
        await one.coordinator.state()


async def test_a_loop_that_stands_still_loses_its_session_to_the_watchdog(start: Start) -> None:
    still, other = await start(2 * SESSION_MS), await start(20 * SESSION_MS)
    await still.coordinator.join(member(1))
    await other.coordinator.join(member(2))
    time.sleep(1.6 * SESSION_MS / 1000)  # noqa: ASYNC251 - more than half of its session
    await until(lambda: still.lost)
    # kazoo's own threads would have kept the session for as long as they live.
    await until(lambda: other.states and 1 not in other.states[-1].members)
    assert (await still.coordinator.join(member(1))).members.keys() >= {1}


async def test_a_silent_ensemble_ends_the_session_by_our_clock_and_a_new_one_begins(
    start: Start, zookeeper: Ensemble
) -> None:
    one = await start()
    lead = await one.coordinator.campaign(await one.coordinator.join(member(1)), frozenset({1}))
    zookeeper.nodes[0].pause()
    try:
        await until(lambda: one.lost)
        with pytest.raises(CoordinatorAway):
            await one.coordinator.resign(lead)
    finally:
        zookeeper.nodes[0].resume()
    while True:
        try:
            seen = await one.coordinator.join(member(1))
            break
        except CoordinatorAway:
            pass
    while seen.leader is not None:  # of the old session, until ZooKeeper gives that up
        with pytest.raises(Fenced):
            await one.coordinator.campaign(seen, frozenset({1}))
        await asyncio.sleep(0.05)
        seen = await one.coordinator.state()
    assert (await one.coordinator.campaign(seen, frozenset({1}))).leader.epoch == 2
    assert one.lost == 1


async def test_a_session_outlives_a_restart_of_the_ensemble(
    start: Start, zookeeper: Ensemble
) -> None:
    one = await start(20 * SESSION_MS)
    lead = await one.coordinator.campaign(await one.coordinator.join(member(1)), frozenset({1}))
    zookeeper.nodes[0].kill()
    await until(lambda: not one.coordinator._session._connected.is_set())
    with pytest.raises(CoordinatorAway):
        await one.coordinator.state()
    await asyncio.to_thread(zookeeper.start)
    await until(lambda: one.coordinator._session._connected.is_set())
    assert await one.coordinator.change_in_sync(lead, lead.state, frozenset({1, 2}))
    assert (await one.coordinator.state()).leader == lead.leader
    assert not one.lost


def _two_holders(stack: ExitStack, hosts: tuple[str, ...], cluster: str) -> tuple[Holder, Holder]:
    first = stack.enter_context(holder(hosts, cluster, 1, SESSION_MS))
    first.wait_for("leads")
    second = stack.enter_context(holder(hosts, cluster, 2, SESSION_MS))
    second.wait_for("follows-1")
    first.wait_for("set-1-2")
    return first, second


def test_a_killed_leader_is_replaced_in_the_next_epoch(zookeeper: Ensemble, cluster: str) -> None:
    with ExitStack() as stack:
        first, second = _two_holders(stack, zookeeper.hosts, cluster)
        first.kill()
        assert second.wait_for("leads")[0] == 2
        words = [line.split()[0] for line in second.lines]
        assert words.index("closed") < words.index("leads")


def test_a_leader_that_was_stopped_steps_down_when_it_goes_on(
    zookeeper: Ensemble, cluster: str
) -> None:
    with ExitStack() as stack:
        first, second = _two_holders(stack, zookeeper.hosts, cluster)
        first.signal(signal.SIGSTOP)
        assert second.wait_for("leads")[0] == 2
        first.signal(signal.SIGCONT)
        first.wait_for("stepped-down")
        assert first.wait_for("follows-2")[0] == 2
        second.wait_for("set-1-2")


@pytest.mark.soak
async def test_each_of_three_nodes_may_die_and_no_session_is_lost(
    tmp_path: Path, cluster: str
) -> None:
    try:
        find_jars()
    except ZooKeeperNotFound as missing:
        pytest.skip(str(missing))
    with ensemble(tmp_path, nodes=3) as three:
        one = Told(
            ZkCoordinator(
                three.hosts, cluster, "group", session_ms=20 * SESSION_MS, clock=SystemClock()
            )
        )
        await one.coordinator.start()
        seen = await one.coordinator.join(member(1))
        lead = await one.coordinator.campaign(seen, frozenset({1}))
        state = lead.state
        for node in three.nodes:
            node.kill()
            in_sync = frozenset({1, len(state.in_sync) + 1})
            while state.in_sync != in_sync:
                try:
                    state = await one.coordinator.change_in_sync(lead, state, in_sync)
                except (CoordinatorAway, Fenced):  # it may have been done all the same
                    await asyncio.sleep(0.05)
                    with suppress(CoordinatorAway):
                        state = await one.coordinator.state()
            await asyncio.to_thread(three.start)
        assert (await one.coordinator.state()).leader == lead.leader
        assert not one.lost
        await one.coordinator.close()
