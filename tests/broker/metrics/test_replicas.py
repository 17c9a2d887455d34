"""What is measured of replicas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.broker.support.group_status import following, leading

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.metrics.families import families
from rocketpipe.metrics import render
from rocketpipe.store.config import StoreConfig

pytestmark = pytest.mark.scenario


async def test_replicas_are_measured_where_there_are_any(tmp_path: Path) -> None:
    seen: list[Core] = []
    config = BrokerConfig(data=tmp_path, port=0, store=StoreConfig.embedded(tmp_path))
    async with broker(config, watch=seen.append):
        (core,) = seen
        assert "rocketpipe_replication" not in render(families(core))
        group = replace(config, replication=ReplicationConfig(role=BrokerRole.SYNC_MASTER))
        core = replace(core, config=group)
        who = 'cluster="DefaultCluster",node_type="broker",node_id="broker-a"'
        core.group.status = leading
        text = render(families(core))
        for name, value in (
            (f'role{{{who},role="leading"}}', 1),
            (f"epoch{{{who}}}", 3),
            (f"confirm_offset{{{who}}}", 980),
            (f"in_sync{{{who}}}", 2),
            (f"min_in_sync{{{who}}}", 2),
            (f'follower_lag_bytes{{{who},follower="3",in_sync="false"}}', 100),
        ):
            assert f"rocketpipe_replication_{name} {value}\n" in text
        core.group.status = following
        text = render(families(core))
        assert f"rocketpipe_replication_behind_bytes{{{who}}} 100\n" in text
        assert f"rocketpipe_replication_connected{{{who}}} 1\n" in text
        assert "rocketpipe_replication_in_sync" not in text
