"""What a NameServer is told when it starts, and what operators may change while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from rocketpipe.auth.config import AuthConfig
from rocketpipe.config.live import ChangeableSettings
from rocketpipe.config.setting import setting
from rocketpipe.remoting.tls_settings import TlsConfig

#: What a profile says where nobody said anything else, by key.
PROFILES: Final = MappingProxyType(
    {
        "dev": MappingProxyType[str, str]({}),
        # Where RocketMQ's NameServer keeps them too.
        "prod": MappingProxyType({"kvConfigPath": "~/namesrv/kvConfig.json"}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvConfig(AuthConfig):
    """One NameServer: where it listens, what it keeps and what it answers."""

    host: str = setting(
        "bindAddress", default="127.0.0.1", help="address to listen on; ::1 for IPv6"
    )
    port: int = setting(
        "listenPort", default=9876, least=0, most=65535, help="port; 0 takes a free one"
    )
    tls: TlsConfig | None = None
    kv_path: Path | None = setting(
        "kvConfigPath",
        default=None,
        help="file of the key-values; without one they last as long as the server",
    )
    auth_cluster: str = setting(
        "authClusterName",
        default="DefaultCluster",
        help="the cluster whose rights (`Cluster:…`) are asked for here",
    )
    profile: Literal["dev", "prod"] = setting(
        "profile", default="dev", help="what is in force where nothing else is said: see above"
    )
    order_enabled: bool = setting(
        "orderMessageEnable",
        default=False,
        live=True,
        help="routes name the queues of topics that are ordered across brokers",
    )
    order_to_brokers: bool = setting(
        "returnOrderTopicConfigToBroker",
        default=True,
        live=True,
        help="a broker that registers is told the topics that are ordered across brokers",
    )
    acting_leaders: bool = setting(
        "supportActingMaster",
        default=False,
        live=True,
        help="routes show the follower with the smallest id as leader where there is none",
    )
    list_all_topics: bool = setting(
        "enableAllTopicList", default=True, live=True, help="the list of all topics is given out"
    )
    list_topics: bool = setting(
        "enableTopicList",
        default=True,
        live=True,
        help="lists of topics by cluster and by unit are given out",
    )
    notify_smallest_id: bool = setting(
        "notifyMinBrokerIdChanged",
        default=False,
        live=True,
        help="brokers of one name are told when another of them has the smallest id",
    )
    wait_for_brokers: bool = setting(
        "needWaitForService",
        default=False,
        live=True,
        help="routes are refused until brokers had the time to register",
    )
    wait_for_brokers_s: int = setting(
        "waitSecondsForService",
        default=45,
        live=True,
        unit="s",
        least=0,
        most=3600,
        help="that time",
    )
    scan_every_ms: int = setting(
        "scanNotActiveBrokerInterval",
        default=5000,
        live=True,
        unit="ms",
        least=100,
        most=600_000,
        help="how often silent brokers are looked for",
    )
    delete_unnamed_topics: bool = setting(
        "deleteTopicWithBrokerRegistration",
        default=False,
        live=True,
        help="a registration is all that a broker has: topics it does not name are gone",
    )
    max_brokers: int = setting(
        "maxBrokers", default=10_000, live=True, least=1, most=1_000_000, help="brokers kept"
    )
    max_topic_routes: int = setting(
        "maxTopicRoutes",
        default=1_000_000,
        live=True,
        least=1,
        most=100_000_000,
        help="topics kept, counted once for each broker name that has them",
    )
    max_key_values: int = setting(
        "maxKeyValues",
        default=100_000,
        live=True,
        least=0,
        most=10_000_000,
        help="key-values kept",
    )
    max_key_value_bytes: int = setting(
        "maxKeyValueBytes",
        default=8 << 20,
        live=True,
        unit="bytes",
        least=0,
        most=64 << 20,
        help="bytes of all key-values together",
    )


class LiveSettings(ChangeableSettings[NamesrvConfig]):
    """The settings of a NameServer in force."""
