"""What ``rocketpipe proxy`` is told, in the words of RocketMQ's own proxy where it has some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketpipe.auth.config import AuthConfig
from rocketpipe.config.load import Choice, Given
from rocketpipe.config.setting import Setting, setting, settings_of
from rocketpipe.proxy.config import DEFAULT_PORT
from rocketpipe.proxy.remote.backend import MAX_BODY_BYTES
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.tls_loading import HEARD, TLS_SETTINGS, tls_items, tls_of
from rocketpipe.remoting.tls_settings import TlsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyServerConfig(AuthConfig):
    """A gRPC port in a process of its own: where it listens, and for which cluster.

    Raises:
        ValueError: If a NameServer is no ``host:port``.
    """

    name_servers: tuple[str, ...] = setting(
        "namesrvAddr",
        default=("127.0.0.1:9876",),
        help="NameServers of the cluster, `host:port;host:port`",
    )
    host: str = setting("bindAddress", default="127.0.0.1", help="the address to listen on")
    port: int = setting(
        "grpcServerPort", default=DEFAULT_PORT, least=0, most=65535, help="0 takes a free port"
    )
    data: Path = setting(
        "storePathRootDir",
        default=Path("~/rocketpipe-proxy"),
        help="where its own certificate is kept, if it is given none, and its users, in `auth`",
    )
    max_body_bytes: int = setting(
        "maxMessageSize",
        default=MAX_BODY_BYTES,
        least=1,
        unit="bytes",
        help="the longest body that is taken; brokers have a limit of their own",
    )
    auth_cluster: str = setting(
        "authClusterName",
        default="DefaultCluster",
        help="the cluster whose rights (`Cluster:…`) are asked for here",
    )
    tls: TlsConfig | None = None

    def __post_init__(self) -> None:
        for address in self.name_servers:
            try:
                split_address(address)
            except ValueError as error:
                raise ValueError(f"namesrvAddr: {error}") from error


def proxy_settings() -> tuple[Setting, ...]:
    """List all that it can be told: about itself, and TLS."""
    return (*settings_of(ProxyServerConfig), *TLS_SETTINGS)


def load_proxy(given: Sequence[Given]) -> tuple[ProxyServerConfig, Choice]:
    """Make settings of what was given, in order of strength.

    Raises:
        ConfigError: If a value is wrong.
    """
    choice = Choice(given, proxy_settings(), heard=HEARD)
    values = choice.values(settings_of(ProxyServerConfig))
    config: ProxyServerConfig = choice.build(ProxyServerConfig, **values, tls=tls_of(choice))
    config.check_auth()
    return config, choice


def proxy_items(config: ProxyServerConfig, choice: Choice) -> list[tuple[str, str, str]]:
    """List every setting: its key, its value as text, and where it comes from."""
    rows = {
        one.key: one.show(getattr(config, one.attribute)) for one in settings_of(ProxyServerConfig)
    }
    rows |= tls_items(config.tls)
    return [(key, text, choice.origin(key)) for key, text in rows.items()]
