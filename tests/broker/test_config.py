"""What a broker is told."""

from __future__ import annotations

from pathlib import Path

from rocketpipe.broker.config import BrokerConfig


def test_the_defaults_are_rocketmqs() -> None:
    config = BrokerConfig(data=Path("store"), name_servers=("127.0.0.1:9876",))
    assert (config.port, config.cluster, config.name, config.broker_id) == (
        10911,
        "DefaultCluster",
        "broker-a",
        0,
    )
    assert (config.default_topic_queues, config.register_every_ms) == (8, 30_000)
    assert config.host == "127.0.0.1"
