"""What a broker is told when it starts, under the keys that RocketMQ's ``broker.conf`` has.

``name`` and ``cluster`` say who it is, ``host`` and ``port`` where it listens, ``advertise`` where
others find it; the rest says what it lets others do, and how much of it at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from rocketpipe.auth.config import AuthConfig
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.config.setting import setting
from rocketpipe.errors import InvalidName
from rocketpipe.model.names import check_broker
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.tls_settings import TlsConfig
from rocketpipe.store.config import StoreConfig

#: What a profile says where nobody said anything else, by key.
PROFILES: Final = MappingProxyType(
    {
        # Begins with little on the disk, and takes whatever a first program sends and asks for.
        "dev": MappingProxyType(
            {
                "autoCreateTopicEnable": "true",
                "autoCreateSubscriptionGroup": "true",
                "mappedFileSizeCommitLog": "64m",
                "mappedFileSizeConsumeQueue": "600000",
                "maxHashSlotNum": "50000",
                "maxIndexNum": "200000",
                "mappedFileSizeTimerLog": "1m",
            }
        ),
        # RocketMQ's sizes; topics and groups are made by who runs the place. What is promised is
        # stated, so that it shows with its origin and a later default does not change it.
        "prod": MappingProxyType(
            {
                "autoCreateTopicEnable": "false",
                "autoCreateSubscriptionGroup": "false",
                "mappedFileSizeCommitLog": "1g",
                "mappedFileSizeConsumeQueue": "6000000",
                "maxHashSlotNum": "5000000",
                "maxIndexNum": "20000000",
                "mappedFileSizeTimerLog": "100m",
                "flushDiskType": "ASYNC_FLUSH",
                "fileReservedTime": "72",
                "deleteWhen": "04",
            }
        ),
    }
)
#: What ``--small-files`` says: more than a profile does, less than a file.
SMALL_FILES: Final = MappingProxyType(
    {
        "mappedFileSizeCommitLog": "16m",
        "mappedFileSizeConsumeQueue": "60000",
        "maxHashSlotNum": "5000",
        "maxIndexNum": "20000",
        "mappedFileSizeTimerLog": "1m",
    }
)

#: Settings that no part of the broker reads yet: whoever gives one is told that it has no effect.
#: A test holds this against the code, so that it shrinks as parts come to read them.
NOT_READ_YET: Final[frozenset[str]] = frozenset()

#: NameServers are told no more and no less often, whatever is asked for.
REGISTER_EVERY_MS: Final = (10_000, 60_000)
_MAX_PORT: Final = 65_535
_MAX_INT: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(AuthConfig):
    """One broker: who it is, where it listens, what it allows, and where it keeps its data.

    Raises:
        ValueError: If settings do not fit together, or one is none at all.
    """

    data: Path = setting("storePathRootDir", help="the directory that everything is kept in")
    #: Sizes, durability and retention of the store in ``data``, where they are not the defaults.
    store: StoreConfig | None = None
    #: Its replicas; None where it has none.
    replication: ReplicationConfig | None = None
    tls: TlsConfig | None = None

    # Who it is, and where.
    name_servers: tuple[str, ...] = setting(
        "namesrvAddr", default=(), help="NameServers to register with, `host:port;host:port`"
    )
    host: str = setting("bindAddress", default="127.0.0.1", help="the address to listen on")
    port: int = setting(
        "listenPort", default=10911, least=0, most=_MAX_PORT, help="0 takes a free port"
    )
    fast_port: bool = setting(
        "fastPortEnable",
        default=True,
        help="the port two below `listenPort` is served too, for RocketMQ's dashboard and old "
        "producers; not where `listenPort` is 0",
    )
    advertise: str | None = setting(
        "brokerIP1",
        default=None,
        help="`host` or `host:port` that clients are told to connect to, if it is not where the "
        "broker listens",
    )
    cluster: str = setting("brokerClusterName", default="DefaultCluster", help="its cluster")
    name: str = setting("brokerName", default="broker-a", help="its name in routes")
    broker_id: int = setting(
        "brokerId",
        default=0,
        least=-1,
        most=_MAX_INT,
        help="0 is the master of its name, its slaves have others; where a leader is elected, ids "
        "are given out",
    )
    region: str = setting(
        "regionId", default="DefaultRegion", help="told to producers, who write it into traces"
    )
    profile: Literal["dev", "prod"] = setting(
        "profile",
        default="dev",
        help="what is in force where nothing else is said: see above",
    )
    register_every_ms: int = setting(
        "registerNameServerPeriod",
        default=30_000,
        unit="ms",
        least=1000,
        help="how often the NameServers are told that it is there, from 10 to 60 seconds",
    )
    register_timeout_ms: int = setting(
        "registerBrokerTimeoutMills",
        default=24_000,
        unit="ms",
        least=1,
        help="how long a NameServer may take to answer",
    )

    # What it lets others do.
    permission: int = setting(
        "brokerPermission",
        default=6,
        least=0,
        most=7,
        live=True,
        help="4 to be read, 2 to be written, 6 for both; bounds the permissions of every topic",
    )
    auto_create_topics: bool = setting(
        "autoCreateTopicEnable", default=True, live=True, help="a send creates its topic"
    )
    auto_create_groups: bool = setting(
        "autoCreateSubscriptionGroup",
        default=True,
        live=True,
        help="a consumer creates its group",
    )
    #: Queues that a topic gets which a send creates, if the sender asks for as many.
    default_topic_queues: int = setting(
        "defaultTopicQueueNums",
        default=8,
        least=1,
        most=65_535,
        help="the most queues a topic gets that a send creates",
    )
    max_message_bytes: int = setting(
        "maxMessageSize",
        default=4 << 20,
        unit="bytes",
        least=1,
        most=512 << 20,
        live=True,
        help="the longest body that is taken",
    )
    accept_sends_at_ms: int = setting(
        "startAcceptSendRequestTimeStamp",
        default=0,
        unit="ms",
        live=True,
        least=0,
        help="sends before this time (milliseconds since 1970) are refused",
    )
    reject_transactions: bool = setting(
        "rejectTransactionMessage", default=False, live=True, help="transactional sends are refused"
    )
    recall: bool = setting(
        "recallMessageEnable",
        default=True,
        live=True,
        help="timed messages can be taken back (RocketMQ: off)",
    )
    check_message_types: bool = setting(
        "enableTopicMessageTypeCheck",
        default=True,
        live=True,
        help="a message has to be of its topic's `message.type` (RocketMQ: at its proxy alone)",
    )
    property_filter: bool = setting(
        "enablePropertyFilter",
        default=True,
        live=True,
        help="SQL92 expressions are allowed (RocketMQ: off)",
    )
    lite_pull: bool = setting(
        "litePullMessageEnable", default=True, live=True, help="lite pull consumers are answered"
    )
    trace_on: bool = setting(
        "traceOn", default=True, help="producers are told that traces are wanted"
    )
    trace_topic: bool = setting(
        "traceTopicEnable", default=False, help="the topic for traces is there from the start"
    )
    trace_topic_name: str = setting(
        "msgTraceTopicName", default="RMQ_SYS_TRACE_TOPIC", help="the name of that topic"
    )
    store_replies: bool = setting(
        "storeReplyMessageEnable", default=True, help="replies to requests are kept as messages"
    )

    # When messages show.
    delay_levels: str = setting(
        "messageDelayLevel",
        default="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        help="the delay of each level, the first is level 1",
    )
    long_polling: bool = setting(
        "longPollingEnable",
        default=True,
        live=True,
        help="a pull that finds nothing waits as long as it asks to",
    )
    short_polling_ms: int = setting(
        "shortPollingTimeMills",
        default=1000,
        unit="ms",
        least=0,
        live=True,
        help="how long it waits instead when that is off",
    )
    #: A longer wait than a pull asks for is never granted; a shorter one is.
    max_suspend_ms: int = setting(
        "maxSuspendMillis",
        default=30_000,
        unit="ms",
        least=0,
        help="the longest that a pull may wait, whatever it asks for (RocketMQ: no limit)",
    )
    cold_flow_control: bool = setting(
        "coldDataFlowControlEnable",
        default=False,
        live=True,
        help="groups that read old messages are held back, for the disk's sake",
    )
    cold_group_bytes: int = setting(
        "cgColdReadThreshold",
        default=3 << 20,
        unit="bytes",
        least=0,
        live=True,
        help="how much of them a group may read every 5 s",
    )
    cold_total_bytes: int = setting(
        "globalColdReadThreshold",
        default=100 << 20,
        unit="bytes",
        least=0,
        live=True,
        help="and all groups together",
    )
    notify_consumers: bool = setting(
        "notifyConsumerIdsChangedEnable",
        default=True,
        live=True,
        help="consumers are told when others of their group come or go",
    )
    client_expiry_ms: int = setting(
        "channelExpiredTimeout",
        aliases=("channelNotActiveInterval",),
        default=120_000,
        unit="ms",
        least=1000,
        help="a client that sends no heartbeat for so long is gone",
    )
    transaction_timeout_ms: int = setting(
        "transactionTimeOut",
        default=6_000,
        unit="ms",
        least=0,
        live=True,
        help="an open transaction is asked about when it is so old",
    )
    transaction_check_max: int = setting(
        "transactionCheckMax",
        default=15,
        least=0,
        most=_MAX_INT,
        live=True,
        help="how often it is asked about before it is given up",
    )
    transaction_check_every_ms: int = setting(
        "transactionCheckInterval",
        default=30_000,
        unit="ms",
        least=1,
        live=True,
        help="how often the broker looks for open transactions",
    )
    max_open_transactions: int = setting(
        "maxOpenTransactions",
        default=200_000,
        least=1,
        most=_MAX_INT,
        help="transactions that may be open; half messages beyond are refused with SYSTEM_BUSY",
    )
    max_staged_bytes: int = setting(
        "maxStagedBytes",
        default=4 << 30,
        unit="bytes",
        least=1 << 20,
        help="how much may be staged and not committed; it keeps the log from being removed",
    )
    staged_expiry_ms: int = setting(
        "stagedExpiry",
        default=6 * 3_600_000,
        unit="ms",
        least=1000,
        help="a stage that got nothing for so long while the broker ran, and was not committed, is "
        "dropped",
    )
    staged_ledger_ms: int = setting(
        "stagedLedgerTime",
        default=30 * 86_400_000,
        unit="ms",
        least=60_000,
        help="for so long after its last commit, while the broker runs, an application's name and "
        "what it has committed are remembered",
    )
    save_offsets_every_ms: int = setting(
        "flushConsumerOffsetInterval",
        default=1_000,
        unit="ms",
        least=10,
        help="how often topics, groups and offsets are saved if they changed (RocketMQ: 5000)",
    )
    offset_commit: Literal["async", "sync"] = setting(
        "offsetCommit",
        default="async",
        help="`sync` answers a commit of an offset when it is on the disk; `async` saves it within "
        "`flushConsumerOffsetInterval`",
    )
    exit_on_store_failure: bool = setting(
        "exitOnStoreFailure",
        default=False,
        help="a broker whose disk failed ends with exit code 70, for a supervisor to start it "
        "again; else it refuses sends and goes on being read until somebody does",
    )

    on_damage: Literal["skip", "stop"] = setting(
        "onDamage",
        default="skip",
        live=True,
        help="a record that turns out to be damaged when it is read is passed over (`skip`), or "
        "who reads there is refused (`stop`); the log, `doctor` and the measurements tell of it",
    )

    # How much of it at once.
    max_waiting_sends: int = setting(
        "sendThreadPoolQueueCapacity",
        default=10_000,
        least=1,
        help="sends that may wait; the next one is refused with SYSTEM_BUSY",
    )
    max_waiting_pulls: int = setting(
        "pullThreadPoolQueueCapacity",
        default=100_000,
        least=1,
        help="pulls that may wait for messages; the next one is refused with SYSTEM_BUSY",
    )
    max_waiting_pops: int = setting(
        "maxPopPollingSize",
        default=100_000,
        least=1,
        help="pops that may wait for messages; the next one is answered at once",
    )
    pop_from_retry_percent: int = setting(
        "popFromRetryProbability",
        default=20,
        least=0,
        most=100,
        help="so many of a hundred pops look first at what comes again",
    )
    pop_retry_topic_v2: bool = setting(
        "enableRetryTopicV2",
        default=True,
        help="what was popped in vain comes again from `%RETRY%group+topic`, not `group_topic`, "
        "which two groups can share (RocketMQ: false); both are read",
    )
    max_connections: int = setting(
        "maxConnections",
        default=10_000,
        least=1,
        help="the next connection is closed again (RocketMQ: no limit)",
    )
    max_unsent_bytes: int = setting(
        "maxUnsentBytes",
        default=0,
        unit="bytes",
        least=0,
        help="answers that all peers together have not taken yet; beyond it the one that takes "
        "nothing is sent away. 0: a sixteenth of the memory, 256 MiB at the most",
    )
    max_unfinished_bytes: int = setting(
        "maxUnfinishedBytes",
        default=0,
        unit="bytes",
        least=0,
        help="requests of all peers that have not arrived whole yet; beyond it the one that was "
        "begun first is dropped, with its connection. 0: as above",
    )
    connection_idle_s: int = setting(
        "serverChannelMaxIdleTimeSeconds",
        default=120,
        unit="s",
        least=1,
        help="a connection without traffic for so long is closed",
    )

    def __post_init__(self) -> None:
        for address in self.name_servers:
            try:
                split_address(address)
            except ValueError as error:
                raise ValueError(f"namesrvAddr: {error}") from error
        for key, value in (("brokerName", self.name), ("brokerClusterName", self.cluster)):
            try:
                check_broker(value)
            except InvalidName as error:  # no NameServer would take it
                raise ValueError(f"{key}: {error}") from error
