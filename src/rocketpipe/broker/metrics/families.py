"""What a broker measures, by RocketMQ's names where it has one and by ours where it has none.

Names, kinds and labels that begin with ``rocketmq_`` are those that a broker of RocketMQ 5 shows to
Prometheus, units at their ends included; ``rocketpipe_`` ones are ours. What cannot be found out is
left out, never told as zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketpipe.broker.core import Core
from rocketpipe.broker.metrics.connections import connections
from rocketpipe.broker.metrics.lag import lag
from rocketpipe.broker.metrics.replicas import replication
from rocketpipe.broker.metrics.storage import storage
from rocketpipe.broker.metrics.traffic import answers, traffic
from rocketpipe.metrics import Family
from rocketpipe.store.state.health import StoreState


def families(core: Core) -> Iterator[Family]:
    """Everything that a broker measures now."""
    if core.store.state is StoreState.CLOSED:
        return  # a replica's, whose log is being changed
    named = {"cluster": core.config.cluster, "node_type": "broker", "node_id": core.config.name}
    yield from traffic(core, named)
    yield from answers(core.stats.counts, named)
    yield from storage(core, named)
    yield from connections(core, named)
    for measured in core.families:
        yield from measured(named)
    if core.config.replication is not None:
        yield from replication(core.group.status(), named)
    yield from lag(core, named)
