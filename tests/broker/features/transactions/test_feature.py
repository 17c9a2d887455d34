"""The feature for transactions plugs in what it takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.broker.support.sending_parts import HOST, SendingParts

from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.features.transactions.feature import transactions
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.protocol.requests.transactions import EndTransaction, ResumeChecks
from rocketpipe.remoting.router import handled_requests
from rocketpipe.testing.clock import ManualClock


async def test_it_answers_decisions_and_asks_for_them(tmp_path: Path) -> None:
    parts = SendingParts(tmp_path, ManualClock())
    core = SimpleNamespace(
        config=parts.config,
        settings=LiveSettings(parts.config, parts.store.config, parts.clock),
        store=parts.store,
        store_host=HOST,
        intake=parts.intake,
        topic_provider=parts.topic_provider,
        visibility=parts.visibility,
        delays=parts.delays,
        destinations=parts.destinations,
        tables=parts.tables,
        stamp=parts.stamp,
        connected=ClientTable(),
        stats=Stats(parts.clock),
        gate=None,
        clock=parts.clock,
    )
    feature = transactions(cast("Any", core))
    (handlers,) = feature.handlers
    assert handled_requests(type(handlers)) == [EndTransaction, ResumeChecks]
    assert list(feature.loops) == ["open transactions"]
    assert feature.takes_half is not None
    assert feature.takes_half(1)
    parts.abandon()
