"""What a broker's settings make of its store and its core."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support.core_parts import ADDRESS, built
from tests.broker.support.leader_parts import elected
from tests.broker.support.sending_parts import put

from rocketpipe.broker.assembly import store_config
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.errors import StoreFollows


def test_whichever_of_store_and_broker_says_something_else_is_meant(tmp_path: Path) -> None:
    store = StoreConfig.embedded(tmp_path)
    config = BrokerConfig(data=tmp_path, store=store, on_damage="skip")
    assert store_config(config).on_damaged_record == "skip"
    assert store_config(config).segment_bytes == store.segment_bytes
    assert store_config(BrokerConfig(data=tmp_path)) == StoreConfig(root=tmp_path)


async def test_without_replicas_a_broker_leads_itself_and_shows_what_it_has(tmp_path: Path) -> None:
    async with built(tmp_path) as core:
        core.store.append([[put()]])
        core.visibility.dispatch()
        assert core.store.max_offset("t", 0) == 1
        status = core.group.status()
        assert status.leads
        assert list(status.addresses.values()) == [ADDRESS]


async def test_a_replica_shows_nothing_before_somebody_says_what_is_confirmed(
    tmp_path: Path,
) -> None:
    async with built(tmp_path, replication=elected()) as core:
        with pytest.raises(StoreFollows):
            core.store.append([[put()]])
        core.store.adopt_tail()
        core.store.append([[put()]])
        core.visibility.dispatch()
        assert core.store.max_offset("t", 0) == 0
        core.store.positions.begin_acknowledged(core.store.positions.written)
        core.visibility.dispatch()
        assert core.store.max_offset("t", 0) == 1
