"""Who decides which role a replica has: a coordinator, or its settings.

zookeeperAddr              the coordinator elects; `RoleKeeper` does what it says
ASYNC_MASTER, SYNC_MASTER  it leads, in an epoch of its own since it started
SLAVE                      it follows whom the settings or the NameServers name
"""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, NoReturn

from rocketpipe.background import running
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.broker.replication.following.terms import master_behind
from rocketpipe.broker.replication.role import RoleKeeper
from rocketpipe.broker.replication.status import Lacking
from rocketpipe.broker.roles.replica import Replica
from rocketpipe.broker.roles.status import status_of
from rocketpipe.clock import Clock
from rocketpipe.coordination.coordinator import (
    Coordinator,
    GroupState,
    IdTaken,
    Leader,
    Leadership,
    NotInSync,
)
from rocketpipe.errors import RocketPipeError

log = logging.getLogger(__name__)

#: How often a slave looks who its master is.
LOOK_EVERY_MS: Final = 1000
NAMED_EVERY_MS: Final = 100
#: How long a slave that was told where its master is tries to find out who that is: only then it
#: can be asked how it speaks. One that is followed as RocketMQ's slaves do stays so.
NAMED_WITHIN_MS: Final = 10_000
#: How long a replica waits whose id another one has.
TAKEN_AGAIN_MS: Final = 5_000
#: How often somebody whom the group does not have makes a leader look for them there.
LOOK_AGAIN_MS: Final = 500
#: How long a replica has to be elected whose operator wants it to lead.
LEADS_WITHIN_MS: Final = 8_000


@asynccontextmanager
async def elected(
    replica: Replica, coordinator: Coordinator, clock: Clock, chance: random.Random
) -> AsyncIterator[RoleKeeper]:
    """Have a coordinator decide inside the block; a leader hands over at its end."""
    keeper = RoleKeeper(coordinator, replica, clock, chance, me=replica.me)
    replica.change_in_sync = keeper.change_in_sync
    replica.knows = _knows(keeper, clock)
    replica.candidates = lambda: keeper.state.candidates
    replica.with_room = lambda: keeper.state.with_room
    replica.member_changed = keeper.look_again
    replica.stand_aside = keeper.resign

    async def resign(to: int | None) -> None:
        await hand_over(replica, keeper, to)

    async def lead_anyway(do_it: bool) -> Lacking:
        return await without_leader(replica, keeper, clock, do_it=do_it)

    replica.resign = replica.run.core.group.resign = resign
    replica.lead_anyway = replica.run.core.group.lead_anyway = lead_anyway
    replica.status = replica.run.core.group.status = partial(status_of, replica, keeper)
    async with running(_keep_role(keeper, clock), "role"):
        try:
            yield keeper
        finally:
            if replica.leads:
                with suppress(RocketPipeError):
                    await hand_over(replica, keeper)


def _knows(keeper: RoleKeeper, clock: Clock) -> Callable[[int], bool]:
    """Whether a replica is of the group, as it was last seen; if not, it is looked at again soon.

    The record of one that has just come may be newer than that: watches come late.
    """
    again_ms = 0

    def knows(id_: int) -> bool:
        nonlocal again_ms
        if id_ in keeper.state.members:
            return True
        if clock.monotonic_ms() >= again_ms:
            again_ms = clock.monotonic_ms() + LOOK_AGAIN_MS
            keeper.look_again()
        return False

    return knows


async def _keep_role(keeper: RoleKeeper, clock: Clock) -> NoReturn:
    told = ""
    while True:
        try:
            await keeper.run()
        except IdTaken as error:
            if str(error) != told:
                told = str(error)
                log.error("this replica takes no part in its group, and tries again: %s", error)
        except (RocketPipeError, OSError):
            log.exception("this replica could not do as its group says, and tries again")
        await clock.sleep(TAKEN_AGAIN_MS)


async def hand_over(replica: Replica, keeper: RoleKeeper, wanted: int | None = None) -> None:
    """Have an in-sync follower lead in this one's place, the one that is wanted or any.

    Raises:
        NotInSync: None has everything, so this broker goes on leading.
        Fenced: It does not lead.
    """
    to = await replica.hand_over(wanted)
    if to is None:
        raise NotInSync("no in-sync replica has everything: this broker goes on leading")
    await keeper.resign(to)


async def without_leader(
    replica: Replica, keeper: RoleKeeper, clock: Clock, *, do_it: bool
) -> Lacking:
    """What this replica may lack, where no other may lead; if it is to, it leads on return.

    Raises:
        LeaderPossible: Another leads, or may.
        NotInSync: It did not come to lead.
        CoordinatorAway: The group cannot be seen.
    """
    state, me = await keeper.without_leader(), replica.member()
    last = replica.run.epochs.at(me.log_end - 1)
    lacking = Lacking(
        log_end=me.log_end,
        last_epoch=last.epoch if last is not None else 0,
        in_sync=state.in_sync,
        unclean=state.in_sync & state.members.keys(),
        ahead=frozenset(id_ for id_ in state.members if state.has_more(id_, me)),
    )
    if not do_it:
        return lacking
    keeper.lead_anyway()
    deadline_ms = clock.monotonic_ms() + LEADS_WITHIN_MS
    while clock.monotonic_ms() < deadline_ms:
        leader = keeper.leader
        if keeper.role in ("promoting", "leading") and leader is not None:
            return dataclasses.replace(lacking, epoch=leader.epoch)
        await clock.sleep(NAMED_EVERY_MS)
    raise NotInSync(f"it did not come to lead within {LEADS_WITHIN_MS // 1000} s: see its log")


async def leads(replica: Replica) -> None:
    """Lead, as the settings say.

    Raises:
        StoreError: The store does not let it.
    """
    run = replica.run
    epoch = max(run.epochs.last_epoch, run.joined.epoch) + 1
    leader = Leader(
        id=replica.me, epoch=epoch, address=replica.address, ha_address=replica.ha_address
    )
    await replica.lead(
        Leadership(
            leader=leader,
            state=GroupState(epoch=epoch, leader=leader, in_sync=frozenset({replica.me})),
        )
    )


async def keep_following(
    replica: Replica, replication: ReplicationConfig, clock: Clock
) -> NoReturn:
    """Follow the master, whoever that is."""
    #: Whom it was told to follow, in a list of its own: nobody is an answer too.
    told: list[Leader | None] = []
    named_until_ms = clock.monotonic_ms() + NAMED_WITHIN_MS
    asked: Leader | None = None
    while True:
        if not replica.is_connected:
            # The answer says who the master is now.
            await replica.run.core.registrar.register(settle=False)
        master = _master(replica, replication) or (told[0] if told else None)
        # Who knows only where its log comes from takes the master for an Apache one.
        unnamed = (
            master is not None and not master.address and clock.monotonic_ms() < named_until_ms
        )
        if unnamed:
            # It may be at no NameServer, or not yet.
            asked = master = await _asked(replica, replication)
        elif master is not None and not master.address and asked is not None:
            master = asked
        if told != [master]:
            if master is not None:
                log.info("follows master=%s ha=%s", master.address or "unknown", master.ha_address)
            elif not unnamed:
                log.warning(
                    "no master of this name is registered yet: start it, or set haMasterAddress"
                )
            try:
                await replica.follow(master)
                told = [master]
            except (RocketPipeError, OSError):
                log.exception("this slave could not do as it was told, and tries again")
        await clock.sleep(NAMED_EVERY_MS if unnamed else LOOK_EVERY_MS)


def _master(replica: Replica, replication: ReplicationConfig) -> Leader | None:
    address, ha_address = replica.run.core.registrar.master or ("", "")
    ha_address = replication.master or ha_address
    if not ha_address:
        return None
    return Leader(id=0, epoch=0, address=address, ha_address=ha_address)


async def _asked(replica: Replica, replication: ReplicationConfig) -> Leader | None:
    """The master whose address was told, if it says itself who it is."""
    config, caller = replica.run.core.config, replica.run.core.caller
    assert replication.master is not None
    address = await master_behind(caller, replication.master, config.cluster, config.name)
    if address is None:
        return None
    return Leader(id=0, epoch=0, address=address, ha_address=replication.master)


def follows(config: BrokerConfig) -> bool:
    """Whether the settings say that this broker is a slave."""
    return config.replication is not None and config.replication.role is BrokerRole.SLAVE
