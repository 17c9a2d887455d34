"""How a replica stands in its group, put together for those who ask."""

from __future__ import annotations

from dataclasses import replace

from rocketpipe.broker.replication.role import RoleKeeper
from rocketpipe.broker.replication.status import FollowingStatus, ReplicationStatus, RoleName
from rocketpipe.broker.roles.replica import Replica


def status_of(replica: Replica, keeper: RoleKeeper | None = None) -> ReplicationStatus:
    """A replica at this moment; ``keeper`` knows more of its group, where a coordinator decides."""
    run = replica.run
    settings = run.core.settings.now.replication or replica.settings
    positions = run.core.store.positions
    followers = replica.followers.status() if replica.followers is not None else []
    leader = replica.leader
    if keeper is not None:
        in_sync, version = keeper.state.in_sync, keeper.state.in_sync_version
        addresses = {each.id: each.address for each in keeper.state.members.values()}
    else:
        in_sync = frozenset(each.id for each in followers if each.in_sync and each.id is not None)
        in_sync |= {replica.me} if replica.leads else set()
        version, addresses = 0, {replica.me: replica.address}
    return ReplicationStatus(
        role=_role(replica, keeper),
        id=replica.me,
        elected=settings.elected,
        waits=settings.waits,
        min_in_sync=settings.min_in_sync,
        epoch=leader.epoch if leader is not None and leader.epoch else run.joined.epoch,
        leader=leader,
        ha_address=replica.ha_address,
        log_end=positions.written,
        durable=positions.durable,
        confirmed=positions.confirmed,
        in_sync=in_sync,
        in_sync_version=version,
        addresses=addresses,
        followers=tuple(followers),
        following=_following(replica),
        epochs=tuple((each.epoch, each.start) for each in run.epochs.entries),
    )


def _role(replica: Replica, keeper: RoleKeeper | None) -> RoleName:
    if keeper is not None:
        return keeper.role
    return "leading" if replica.leads else "following"


def _following(replica: Replica) -> FollowingStatus | None:
    if replica.leads:
        return None
    if replica.following is None:
        ha_address = replica.leader.ha_address if replica.leader is not None else ""
        return FollowingStatus(master_ha=ha_address, connected=False, refused=replica.refused)
    now = replica.following.status()
    return replace(now, refused=now.refused or replica.refused)
