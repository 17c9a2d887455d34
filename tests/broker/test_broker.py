"""A broker as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config import BrokerConfig
from rocketpipe.errors import StoreError


async def test_a_directory_it_cannot_use_is_told_as_such_and_the_port_is_free_again(
    tmp_path: Path,
) -> None:
    async with broker(BrokerConfig(data=tmp_path, name_servers=(), port=0)) as address:
        port = int(address.rpartition(":")[2])
    config = BrokerConfig(data=tmp_path, name_servers=(), port=port)
    for _ in range(2):
        with pytest.raises(StoreError, match="is there already"):
            async with broker(config):
                pass
