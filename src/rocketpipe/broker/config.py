"""What a broker is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocketpipe.store.config import StoreConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker: who it is, where it listens, and where it keeps its data."""

    data: Path
    name_servers: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 10911
    cluster: str = "DefaultCluster"
    name: str = "broker-a"
    broker_id: int = 0
    region: str = "DefaultRegion"
    #: Queues that a topic gets which a send creates, if the sender asks for as many.
    default_topic_queues: int = 8
    register_every_ms: int = 30_000
    #: A longer wait than a pull asks for is never granted; a shorter one is.
    max_suspend_ms: int = 30_000
    #: Sizes, durability and retention of the store in ``data``, where they are not the defaults.
    store: StoreConfig | None = None
