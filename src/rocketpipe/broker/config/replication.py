"""What a broker is told of its replicas, under RocketMQ's keys where it has one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.policy import check_source, is_from
from rocketpipe.config.setting import setting
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.tls_settings import TlsSettings


class BrokerRole(Enum):
    """What a broker is in its group, where no coordinator decides."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """A broker that has replicas: which role it has, where they meet, whom it waits for.

    Raises:
        ValueError: If settings do not fit together.
    """

    #: How it connects to the others, and as whom: not settings of their own.
    tls: TlsSettings | None = None
    inner: Credentials | None = None
    role: BrokerRole | None = setting(
        "brokerRole",
        default=None,
        help="`ASYNC_MASTER` answers sends by itself, `SYNC_MASTER` when its in-sync slaves have "
        "them too, `SLAVE` follows; where a coordinator elects, `ASYNC_MASTER` says that leaders "
        "do not wait",
    )
    ha_port: int = setting(
        "haListenPort",
        default=-1,
        least=-1,
        most=65_535,
        help="where slaves connect; −1 is the port behind `listenPort`, or a free one",
    )
    ha_host: str | None = setting(
        "brokerIP2",
        default=None,
        help="`host` or `host:port` that slaves are told to connect to, if it is not where this "
        "broker listens for them",
    )
    master: str | None = setting(
        "haMasterAddress",
        default=None,
        help="where the master listens for slaves; else the NameServers are asked",
    )
    zookeepers: tuple[str, ...] = setting(
        "zookeeperAddr",
        default=(),
        help="the coordinator that elects a leader among the brokers of one name, "
        "`host:port;host:port`; `brokerRole` then says only whether leaders wait",
    )
    session_ms: int = setting(
        "zookeeperSessionTimeout",
        default=3_000,
        unit="ms",
        least=1_000,
        most=60_000,
        help="a leader that the coordinator hears nothing of for so long is replaced",
    )
    min_in_sync: int = setting(
        "minInSyncReplicas",
        default=2,
        least=1,
        most=100,
        live=True,
        help="with fewer copies in sync, the leader's own included, sends are refused (RocketMQ: "
        "1, and `SYNC_MASTER` waits for nobody)",
    )
    slave_timeout_ms: int = setting(
        "slaveTimeout",
        default=3_000,
        unit="ms",
        least=1,
        help="how long a send waits for them",
    )
    max_gap_bytes: int = setting(
        "haMaxGapNotInSync",
        aliases=("haSlaveFallbehindMax",),
        default=256 << 20,
        unit="bytes",
        least=1,
        help="a slave that is further behind is not in sync, where no coordinator decides",
    )
    max_lag_ms: int = setting(
        "haMaxTimeSlaveNotCatchup",
        default=2_000,
        unit="ms",
        least=100,
        help="a replica that did not catch up for so long leaves the in-sync set, and sends no "
        "longer wait for it: less than `slaveTimeout` (RocketMQ: 15000)",
    )
    heartbeat_ms: int = setting(
        "haSendHeartbeatInterval",
        default=5_000,
        unit="ms",
        least=10,
        help="either side says something so often",
    )
    silence_ms: int = setting(
        "haHousekeepingInterval",
        default=20_000,
        unit="ms",
        least=100,
        help="either side gives the other up after so long a silence",
    )
    transfer_bytes: int = setting(
        "haTransferBatchSize",
        default=32 << 10,
        unit="bytes",
        least=1 << 10,
        most=2 << 20,
        help="how much of the log goes at once to a slave of Apache's; ours get 256 KiB",
    )
    catch_up_bytes: int = setting(
        "maxHaTransferByteInSecond",
        default=100 << 20,
        unit="bytes",
        least=1 << 10,
        help="how much of it a second to a replica that is not in sync",
    )
    retain_ms: int = setting(
        "haRetainForFollowers",
        default=3_600_000,
        unit="ms",
        least=0,
        help="what a replica has yet to get is not removed while it was here within so long",
    )
    slave_read: bool = setting(
        "slaveReadEnable",
        default=True,
        live=True,
        help="slaves answer pulls, of what is confirmed (RocketMQ: off)",
    )
    allow_plain: bool = setting(
        "haAllowPlain",
        default=False,
        help="where a coordinator elects, slaves of Apache's may listen in too",
    )

    plain_from: tuple[str, ...] = setting(
        "haAllowPlainFrom",
        default=(),
        help="with access control: addresses and networks of replicas that need not prove who they "
        "are, `address;address`, as RocketMQ's own cannot. What comes from there is believed, and "
        "goes there as it is",
    )

    @property
    def elected(self) -> bool:
        """Whether a coordinator decides who leads."""
        return bool(self.zookeepers)

    @property
    def waits(self) -> bool:
        """Whether a leader answers sends only when its in-sync replicas have them."""
        if self.elected:
            return self.role is not BrokerRole.ASYNC_MASTER
        return self.role is BrokerRole.SYNC_MASTER

    def listen_port(self, port: int) -> int:
        """Where slaves connect, of a broker that listens on ``port``; 0 takes a free one."""
        if self.ha_port >= 0:
            return self.ha_port
        return port + 1 if port else 0

    def proves_to(self, leader: str) -> Credentials | None:
        """By what a leader at this host is told who follows; None if it is not to be told."""
        if any(is_from(leader, each) for each in self.plain_from):
            return None
        return self.inner

    def __post_init__(self) -> None:
        for key, address in (
            *(("zookeeperAddr", each) for each in self.zookeepers),
            *((("haMasterAddress", self.master),) if self.master else ()),
        ):
            try:
                split_address(address)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from error
        for source in self.plain_from:
            try:
                check_source(source)
            except ValueError as error:
                raise ValueError(f"haAllowPlainFrom: {error}") from error
        if self.silence_ms <= self.heartbeat_ms:
            raise ValueError(
                f"haHousekeepingInterval: {self.silence_ms} is not longer than "
                f"haSendHeartbeatInterval, {self.heartbeat_ms}"
            )
