"""From the keys of a ``broker.conf`` to what a broker is in its group.

    nothing said                         a broker by itself: None
    brokerRole, brokerId                 roles that stay as they are
    zookeeperAddr                        a coordinator elects; brokerId is given out by it

RocketMQ has more keys than that, for its controller, for acting masters and for how many are waited
for. None of them is taken for something else: it is refused, or what it does not do is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rocketpipe.broker.config.advertise import advertised_address
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.config.load import Choice, Given
from rocketpipe.config.setting import Setting, settings_of
from rocketpipe.errors import ConfigError

REPLICATION_SETTINGS: Final[tuple[Setting, ...]] = settings_of(ReplicationConfig)

#: Any of these says that a broker has replicas, if it says anything but the default.
_ASKS: Final = ("role", "ha_port", "master", "zookeepers")
#: What the port two below the broker's is for: see ``fast_port``.
_FAST_PORT_BELOW: Final = 2
_MAX_PORT: Final = 65_535

#: Keys of RocketMQ, the value that is so here anyway, and why any other has no effect.
_SO_ANYWAY: Final[Mapping[str, tuple[str, str]]] = {
    "inSyncReplicas": (
        "",
        "a send waits for every in-sync replica, and minInSyncReplicas says how many there have to "
        "be; ASYNC_MASTER waits for none",
    ),
    "allAckInSyncStateSet": (
        "true",
        "a leader that waits, waits for every in-sync replica; ASYNC_MASTER waits for none",
    ),
    "enableAutoInSyncReplicas": (
        "true",
        "a replica that falls behind is no longer waited for, down to minInSyncReplicas",
    ),
    "totalReplicas": ("", "a group has as many replicas as come"),
    "haFlowControlEnable": (
        "true",
        "what a replica that is not in sync gets is always bounded: see maxHaTransferByteInSecond",
    ),
    "offsetCheckInSlave": ("false", "a slave never moves a consumer's offset"),
    "syncFromLastFile": ("false", "a replica gets the whole log"),
    "asyncLearner": ("false", "every replica may be in sync, and lead where one is elected"),
    "enableSlaveActingMaster": (
        "false",
        "no slave does a master's work: have a leader elected, with zookeeperAddr",
    ),
    "enableRemoteEscape": ("false", "no slave does a master's work"),
    "lockInStrictMode": ("false", "the leader alone gives locks out"),
    "controllerAddr": ("", "there is no controller: have a leader elected, with zookeeperAddr"),
    "brokerElectionPriority": ("", "of the in-sync replicas, the one that has most is elected"),
}
#: Keys that this module looks at by itself.
HEARD: Final = frozenset(_SO_ANYWAY)


def idle_keys(choice: Choice) -> frozenset[str]:
    """The keys that say nothing, as nobody asked for replicas."""
    if _asked(choice.values(REPLICATION_SETTINGS)):
        return frozenset()
    # What asks and has its default is no mistake: it says that there are none.
    return frozenset(one.key for one in REPLICATION_SETTINGS if one.attribute not in _ASKS)


def replication_of(choice: Choice, broker: Mapping[str, Any]) -> ReplicationConfig | None:
    """Make the settings of a group of replicas; None where nobody asked for any.

    ``broker`` are values of ``BrokerConfig`` that were given, by attribute. What has no effect is
    told in ``choice.warnings()``.

    Raises:
        ConfigError: If they do not fit together, or with the broker's own.
    """
    values = choice.values(REPLICATION_SETTINGS)
    if not _asked(values):
        _refuse_id(choice, broker.get("broker_id", 0))
        return None
    if zookeepers := values.get("zookeepers"):
        values["zookeepers"] = _comma_separated(zookeepers)
    if plain_from := values.get("plain_from"):
        values["plain_from"] = _comma_separated(plain_from)
    _check_told_address(choice)
    config = choice.build(ReplicationConfig, **values)
    _check_id(choice, config, broker.get("broker_id", 0))
    _check_port(choice, config, broker)
    _note_idle(choice, config)
    _note_doubtful(choice, config)
    return config


def _asked(values: Mapping[str, Any]) -> bool:
    usual = {one.attribute: one.default for one in REPLICATION_SETTINGS}
    return any(values.get(each, usual[each]) != usual[each] for each in _ASKS)


def _comma_separated(addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Take ZooKeeper's own way to write a list, too."""
    parts = (part.strip() for each in addresses for part in each.split(","))
    return tuple(part for part in parts if part)


def _refuse_id(choice: Choice, broker_id: int) -> None:
    if broker_id < 0:
        raise _wrong(
            choice.given("brokerId"), "a coordinator gives ids out, and zookeeperAddr is not set"
        )
    if broker_id > 0:
        raise _wrong(
            choice.given("brokerId"),
            "only a slave has another id than 0: set brokerRole to SLAVE, or brokerId to 0",
        )


def _check_id(choice: Choice, config: ReplicationConfig, broker_id: int) -> None:
    if config.elected:
        if broker_id > 0:
            choice.warn(
                f"{said(choice.given('brokerId'))} has no effect: where a leader is elected, ids "
                "are given out, and kept in the data directory"
            )
        return
    if config.role is not BrokerRole.SLAVE:
        _refuse_id(choice, broker_id)
    elif broker_id <= 0:
        raise _wrong(
            choice.given("brokerRole"),
            "a slave needs an id of its own: set brokerId to 1 or more",
        )


def _check_port(choice: Choice, config: ReplicationConfig, broker: Mapping[str, Any]) -> None:
    port = broker.get("port", 10911)
    mine = config.listen_port(port)
    if mine > _MAX_PORT:
        raise _wrong(choice.given("listenPort"), "there is no port behind it: set haListenPort")
    if not mine or not port:
        return
    given = choice.given("haListenPort")
    if mine == port:
        raise _wrong(given, f"clients connect to {port}, slaves need another port")
    if broker.get("fast_port", True) and mine == port - _FAST_PORT_BELOW:
        raise _wrong(
            given,
            f"that port, two below {port}, is the broker's too: take another, or set "
            "fastPortEnable to false",
        )


def _check_told_address(choice: Choice) -> None:
    given = choice.given("brokerIP2")
    if given is not None:
        try:
            advertised_address(given.text.strip() or None, "127.0.0.1:0")
        except ValueError as error:
            raise _wrong(given, "HOST or HOST:PORT is expected") from error


def _note_idle(choice: Choice, config: ReplicationConfig) -> None:
    """Say of each key that was given in vain why it was."""
    slave = config.role is BrokerRole.SLAVE and not config.elected
    rules = {
        "minInSyncReplicas": (
            not config.waits and not slave,
            "sends do not wait for replicas: that is what SYNC_MASTER is for",
        ),
        "slaveTimeout": (not config.waits and not slave, "sends do not wait for replicas"),
        "haMasterAddress": (
            bool(config.master) and not slave,
            "only a SLAVE follows a fixed address",
        ),
        "haAllowPlain": (
            config.allow_plain and not config.elected,
            "where roles are fixed, slaves of Apache's always may",
        ),
    }
    for key, (idle, why) in rules.items():
        if idle and (given := choice.given(key)) is not None:
            choice.warn(f"{said(given)} has no effect: {why}")
    for key, (anyway, why) in _SO_ANYWAY.items():
        given = choice.given(key)
        if given is not None and given.text.strip().lower() != anyway:
            choice.warn(f"{said(given)} has no effect: {why}")


def _note_doubtful(choice: Choice, config: ReplicationConfig) -> None:
    """Say what takes effect, and hardly as it was meant."""
    total, least = choice.given("totalReplicas"), choice.given("minInSyncReplicas")
    if (
        config.waits
        and total is not None
        and total.text.strip().isdecimal()
        and config.min_in_sync > int(total.text)
    ):
        choice.warn(
            f"{said(least or total)}: with fewer than {config.min_in_sync} copies every send is "
            f"refused, and {said(total)}"
        )
    if config.waits and config.max_lag_ms >= config.slave_timeout_ms:
        given = choice.given("haMaxTimeSlaveNotCatchup") or choice.given("slaveTimeout")
        choice.warn(
            f"{said(given)}: a replica that stalls is waited for {config.max_lag_ms} ms, and "
            f"sends fail after {config.slave_timeout_ms}: have haMaxTimeSlaveNotCatchup be less "
            "than slaveTimeout"
        )


def said(given: Given | None) -> str:
    assert given is not None
    return f"{given.origin}: {given.name}={given.text.strip()[:100]}"


def _wrong(given: Given | None, instead: str) -> ConfigError:
    if given is None:
        return ConfigError("settings", instead)
    return ConfigError(given.origin, f"{given.name}={given.text!r}: {instead}")
