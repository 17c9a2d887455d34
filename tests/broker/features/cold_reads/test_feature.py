"""Settings of cold reads can be changed while the broker runs, and are heeded at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.broker.support.sending_parts import SendingParts

from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.delivery.cold_reads import ColdReads
from rocketpipe.broker.features.cold_reads.feature import cold_reads
from rocketpipe.testing.clock import ManualClock


async def test_it_is_switched_on_and_off_without_a_restart(tmp_path: Path) -> None:
    parts = SendingParts(tmp_path, ManualClock())
    settings = LiveSettings(parts.config, parts.store.config, parts.clock)
    cold = ColdReads(parts.config, parts.store, parts.clock)
    feature = cold_reads(cast("Any", SimpleNamespace(settings=settings, cold=cold)))
    assert len(feature.handlers) == 1
    assert not cold.on
    settings.change({"coldDataFlowControlEnable": "true", "cgColdReadThreshold": "7"})
    assert cold.on
    assert cold.info()["cgColdReadThreshold"] == 7
    settings.change({"coldDataFlowControlEnable": "false"})
    assert not cold.on
    parts.abandon()
