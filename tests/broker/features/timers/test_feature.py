"""The feature for timed messages plugs in what it takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.broker.support.sending_parts import SendingParts

from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.features.timers.feature import timers
from rocketpipe.broker.intake.arrivals import Arrivals
from rocketpipe.broker.stats import Stats
from rocketpipe.protocol.requests.replication import GetTimerCheckPoint, GetTimerMetrics
from rocketpipe.protocol.requests.sending import RecallMessage
from rocketpipe.remoting.router import handled_requests
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.upkeep.retention import Retention
from rocketpipe.testing.clock import ManualClock


async def test_it_answers_recalls_and_delivers(tmp_path: Path) -> None:
    parts = SendingParts(tmp_path, ManualClock())
    core = SimpleNamespace(
        config=parts.config,
        settings=LiveSettings(parts.config, parts.store.config, parts.clock),
        store=parts.store,
        intake=parts.intake,
        topic_provider=parts.topic_provider,
        clock=parts.clock,
        destinations=parts.destinations,
        stats=Stats(parts.clock),
        arrivals=Arrivals(),
        retention=Retention(parts.store, disk=Disk(), clock=parts.clock, pins=parts.pins),
    )
    feature = timers(cast("Any", core))
    recalls, state = feature.handlers
    assert handled_requests(type(recalls)) == [RecallMessage]
    assert set(handled_requests(type(state))) == {GetTimerCheckPoint, GetTimerMetrics}
    assert list(feature.loops) == ["timed messages"]
    assert "timed messages" in {pin.owner for pin in parts.pins._pins}
    parts.abandon()
