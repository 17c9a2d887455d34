"""The ways to keep copies that are measured beside each other.

alone          one broker
before         one broker of the last commit that knew nothing of replicas
async          ASYNC_MASTER and a slave that is not waited for
sync           SYNC_MASTER and a slave that is
elected-N      N replicas of which one leads, all of them waited for
apache-async   ASYNC_MASTER and a slave, Apache's
apache-sync    SYNC_MASTER and a slave, Apache's, told to wait for its slave as ours does
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.replication.apache import apaches
from benchmarks.replication.before import COMMIT, before
from benchmarks.replication.groups import Ground, Replica, elected, master_and_slave, ours
from tests.compat.support.apache import NEWEST


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to keep copies."""

    title: str
    made: Callable[[Ground, str], list[Replica]]
    #: A JVM compiles meanwhile.
    warmup_s: float = 1.0
    #: Whether it is measured in a quick run too.
    quick: bool = False


KINDS: Final[Mapping[str, Kind]] = {
    "alone": Kind(
        "no replicas", lambda ground, name: [ours(ground, name, 0, more={}, words=[])], quick=True
    ),
    "before": Kind(f"no replicas, {COMMIT}", before),
    "async": Kind(
        "ASYNC_MASTER, a slave", lambda g, n: master_and_slave(g, n, "async-master"), quick=True
    ),
    "sync": Kind(
        "SYNC_MASTER, a slave", lambda g, n: master_and_slave(g, n, "sync-master"), quick=True
    ),
    "elected-2": Kind("elected, 2 replicas", lambda g, n: elected(g, n, 2)),
    "elected-3": Kind("elected, 3 replicas", lambda g, n: elected(g, n, 3)),
    "apache-async": Kind(
        f"Apache {NEWEST} ASYNC_MASTER, a slave",
        lambda g, n: apaches(g, n, "ASYNC_MASTER"),
        warmup_s=20.0,
    ),
    "apache-sync": Kind(
        f"Apache {NEWEST} SYNC_MASTER, a slave",
        lambda g, n: apaches(g, n, "SYNC_MASTER"),
        warmup_s=20.0,
    ),
}
