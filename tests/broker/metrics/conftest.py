"""A broker that runs, and the text of what it measures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.metrics.families import families
from rocketpipe.metrics import render
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import StoreConfig

WHO = 'cluster="DefaultCluster",node_type="broker",node_id="broker-a"'


@dataclass(frozen=True)
class Measured:
    """A broker, and how its numbers are asked for."""

    core: Core
    names: str

    def text(self) -> str:
        return render(families(self.core))

    def value(self, name: str, **labels: str) -> float | None:
        """The one series of a name that has these labels, among others; None if there is none."""
        found = [
            float(line.rpartition(" ")[2])
            for line in self.text().splitlines()
            if line.startswith(f"{name}{{{WHO}")
            and all(f'{key}="{text}"' in line for key, text in labels.items())
        ]
        assert len(found) <= 1, found
        return found[0] if found else None


@pytest.fixture
async def measured(tmp_path: Path) -> AsyncIterator[Measured]:
    seen: list[Core] = []
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=tmp_path, name_servers=(names,), port=0, store=StoreConfig.embedded(tmp_path)
        )
        async with broker(config, watch=seen.append):
            yield Measured(seen[0], names)
