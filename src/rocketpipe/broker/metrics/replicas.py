"""What is measured of a broker among its replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketpipe.broker.replication.status import ReplicationStatus
from rocketpipe.metrics import Family, Kind, Series, single


def replication(status: ReplicationStatus, named: Mapping[str, str]) -> Iterator[Family]:
    """How a broker stands among its replicas; ``named`` are the labels that all have."""
    yield single(
        "rocketpipe_replication_role",
        Kind.GAUGE,
        "1, with the role that this broker has in its group.",
        1,
        **named,
        role=status.role,
    )
    told = [
        ("epoch", "Epoch of the leader that this broker follows, or is.", status.epoch),
        ("confirm_offset", "Up to where the log counts.", status.confirmed),
    ]
    if status.leads:
        told.append(("in_sync", "Copies in sync, the leader's included.", len(status.in_sync)))
        told.append(("min_in_sync", "With fewer, sends are refused.", status.min_in_sync))
    elif status.following is not None:
        behind = max(0, status.following.leader_end - status.log_end)
        told.append(("behind_bytes", "Bytes that this follower has yet to get.", behind))
        connected = int(status.following.connected)
        told.append(("connected", "1 while this follower is connected to its leader.", connected))
    for name, text, value in told:
        yield single(f"rocketpipe_replication_{name}", Kind.GAUGE, text, value, **named)
    if not status.leads:
        return
    yield Family(
        "rocketpipe_replication_follower_lag_bytes",
        Kind.GAUGE,
        "Bytes that a follower has yet to get, as its leader sees it.",
        (
            Series(
                each.lag,
                {
                    **named,
                    "follower": each.address if each.id is None else str(each.id),
                    "in_sync": str(each.in_sync).lower(),
                },
            )
            for each in status.followers
        ),
    )
