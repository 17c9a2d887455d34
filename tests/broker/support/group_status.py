"""Replicas in some state, for tests of those who tell of them."""

from __future__ import annotations

from typing import Any

from rocketpipe.broker.replication.status import FollowerStatus, FollowingStatus, ReplicationStatus
from rocketpipe.coordination.coordinator import Leader

LEADER = Leader(id=1, epoch=3, address="127.0.0.1:10911", ha_address="127.0.0.1:10912")


def leading(**changes: Any) -> ReplicationStatus:
    """Replica 1 leads 2, which is in sync, and 3, which is 100 bytes behind."""
    values: dict[str, Any] = {
        "role": "leading",
        "id": 1,
        "elected": True,
        "waits": True,
        "min_in_sync": 2,
        "epoch": 3,
        "leader": LEADER,
        "ha_address": "127.0.0.1:10912",
        "log_end": 1000,
        "durable": 990,
        "confirmed": 980,
        "in_sync": frozenset({1, 2}),
        "in_sync_version": 7,
        "addresses": {1: LEADER.address, 2: "127.0.0.1:10921", 3: "127.0.0.1:10931"},
        "followers": (
            FollowerStatus(
                id=2,
                address="127.0.0.1:40001",
                dialect="epochs",
                end=1000,
                lag=0,
                in_sync=True,
                bytes_per_second=5,
                transfer_from=1000,
            ),
            FollowerStatus(
                id=3, address="127.0.0.1:40002", dialect="epochs", end=900, lag=100, in_sync=False
            ),
        ),
        "epochs": ((1, 0), (3, 500)),
    }
    return ReplicationStatus(**{**values, **changes})


def following(**changes: Any) -> ReplicationStatus:
    """Replica 2 follows 1."""
    values: dict[str, Any] = {
        "role": "following",
        "id": 2,
        "ha_address": "127.0.0.1:10922",
        "log_end": 900,
        "in_sync": frozenset(),
        "followers": (),
        "following": FollowingStatus(
            master_ha=LEADER.ha_address,
            connected=True,
            last_read_ms=11,
            last_write_ms=12,
            bytes=13,
            leader_end=1000,
            confirmed=880,
        ),
    }
    return leading(**{**values, **changes})
