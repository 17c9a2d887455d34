"""From the keys of a ``broker.conf`` to a broker's settings and those of its store.

RocketMQ fills several classes from one file; so do we. A key that promises what this broker does
not do is refused with what to do instead: to start all the same would be to break the promise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketpipe.auth.plain.acl import PLAIN_ACL
from rocketpipe.broker.config.advertise import advertised_address, is_loopback
from rocketpipe.broker.config.config import (
    NOT_READ_YET,
    PROFILES,
    REGISTER_EVERY_MS,
    SMALL_FILES,
    BrokerConfig,
)
from rocketpipe.broker.config.replica_settings import (
    HEARD,
    REPLICATION_SETTINGS,
    idle_keys,
    replication_of,
    said,
)
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.config.so_anyway import kept_anyway
from rocketpipe.config.known_keys import BROKER_KEYS, ORPHANED_KEYS
from rocketpipe.config.load import Choice, Given
from rocketpipe.config.setting import Setting, setting_for, settings_of, shown
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.tls_loading import HEARD as TLS_HEARD
from rocketpipe.remoting.tls_loading import TLS_SETTINGS, tls_items, tls_of
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.layout import StoreLayout

#: Where RocketMQ keeps its data when it is told nothing.
DEFAULT_DATA: Final = Path("~/store")
#: RocketMQ rounds the size of a queue's file up to whole entries.
_QUEUE_ENTRY_BYTES: Final = 20


def _store(attribute: str, key: str, help: str, **facts: Any) -> Setting:  # noqa: A002
    return setting_for(StoreConfig, attribute, key, help=help, **facts)


#: What keys of RocketMQ, and some of ours, say to ``StoreConfig``.
STORE_SETTINGS: Final[tuple[Setting, ...]] = (
    _store(
        "segment_bytes",
        "mappedFileSizeCommitLog",
        "the size of a file of the log, where the data begins",
        aliases=("mapedFileSizeCommitLog",),
        unit="bytes",
        least=1024,
        most=(1 << 31) - 1,
    ),
    _store(
        "queue_file_bytes",
        "mappedFileSizeConsumeQueue",
        "the size of a file of a queue, rounded up to entries of 20 bytes",
        aliases=("mapedFileSizeConsumeQueue",),
        unit="bytes",
        least=1,
        most=(1 << 31) - 20,
    ),
    _store("index_slots", "maxHashSlotNum", "the slots of a file of the key index", least=1),
    _store("index_entries", "maxIndexNum", "the entries of a file of the key index", least=2),
    _store(
        "flush",
        "flushDiskType",
        "a send is answered when the operating system has it (`ASYNC_FLUSH`) or when the disk "
        "has it (`SYNC_FLUSH`)",
    ),
    _store(
        "flush_interval_ms",
        "flushIntervalCommitLog",
        "how often the log is synced with `ASYNC_FLUSH`",
        unit="ms",
        least=1,
    ),
    _store(
        "flush_timeout_ms",
        "syncFlushTimeout",
        "how long a send waits for the disk with `SYNC_FLUSH` before it is answered "
        "FLUSH_DISK_TIMEOUT",
        unit="ms",
        least=1,
    ),
    _store("reserved_hours", "fileReservedTime", "how old files become", unit="hours", least=0),
    _store("delete_hours", "deleteWhen", "the hours of the day at which expired files go"),
    _store(
        "used_ratio",
        "diskMaxUsedSpaceRatio",
        "how full the disk may be before expired files go at any hour",
        unit="percent",
        least=1,
        most=100,
    ),
    _store(
        "force_ratio",
        "diskSpaceCleanForciblyRatio",
        "how full it may be before the oldest files go, expired or not",
        unit="percent",
        least=1,
        most=100,
    ),
    _store(
        "full_ratio",
        "diskSpaceWarningLevelRatio",
        "how full it may be before sends are refused",
        unit="percent",
        least=1,
        most=100,
    ),
    _store("delay_levels", "messageDelayLevel", "as above"),
    _store(
        "timer_max_delay_ms",
        "timerMaxDelaySec",
        "the longest delay of a timed message; empty for no limit",
        unit="s",
        least=1,
        times=1000,
    ),
    _store(
        "max_waiting_timers",
        "maxWaitingTimers",
        "how many timed messages may wait; beyond that, sends of more are refused",
        least=1,
    ),
    _store(
        "timer_log_bytes",
        "mappedFileSizeTimerLog",
        "the size of the timer's files, as an Apache broker would find them",
        unit="bytes",
        least=1024,
    ),
    _store(
        "checksum",
        "enabledAppendPropCRC",
        "each record gets a checksum over all of it (RocketMQ: off)",
    ),
    _store("verify_reads", "verifyReads", "records are checked again before a reader gets them"),
    _store("index_tags", "indexTags", "the key index has the tags too, as RocketMQ 5.5 does it"),
    _store("max_open_files", "maxOpenFiles", "how many files the store keeps open", least=8),
    _store(
        "on_damaged_log",
        "onDamagedLog",
        "`stop` refuses to open a log that is damaged where it was durable; `skip` sets the "
        "damaged bytes aside and goes on",
    ),
    _store(
        "quarantine_bytes",
        "maxQuarantineBytes",
        "how much is kept under `quarantine` of what was cut off the log or replaced in it; beyond "
        "that the oldest goes",
        unit="bytes",
        least=0,
    ),
)

#: Files whose size a store keeps, by the key that would give them another.
_SIZED: Final = {
    "mappedFileSizeCommitLog": ("segment_bytes", "commit_log", "*"),
    "mappedFileSizeConsumeQueue": ("queue_file_bytes", "queues", "*/*/*"),
}


@dataclass(frozen=True, slots=True)
class LoadedBroker:
    """A broker's settings, and how they came about."""

    config: BrokerConfig
    choice: Choice

    def items(self) -> list[tuple[str, str, str]]:
        """List every setting: its key, its value as text, and where it comes from."""
        store = self.config.store
        rows = {
            one.key: one.write(getattr(store, one.attribute)) for one in STORE_SETTINGS if store
        }
        group = self.config.replication or ReplicationConfig()
        rows |= {one.key: one.write(getattr(group, one.attribute)) for one in REPLICATION_SETTINGS}
        rows |= tls_items(self.config.tls)
        for one in settings_of(BrokerConfig):
            rows[one.key] = one.show(getattr(self.config, one.attribute))
        return [(key, text, self.choice.origin(key)) for key, text in rows.items()]


def broker_settings() -> tuple[Setting, ...]:
    """List all that a broker can be told: about itself, its replicas, its store, and TLS."""
    return (*settings_of(BrokerConfig), *REPLICATION_SETTINGS, *STORE_SETTINGS, *TLS_SETTINGS)


def load_broker(
    given: Sequence[Given], *, profile: str | None = None, small_files: bool = False
) -> LoadedBroker:
    """Make settings of what was given, in order of strength.

    ``profile`` is the one that counts where none is given; ``small_files`` says more than a profile
    and less than everything else.

    Raises:
        ConfigError: If a value is wrong, or promises what this broker does not do.
    """
    settings = broker_settings()
    known = BROKER_KEYS | ORPHANED_KEYS
    (one,) = (one for one in settings if one.attribute == "profile")
    usual = [Given(one.key, profile, "default")] if profile else []
    first = Choice([*usual, *given], settings, known)
    chosen = first.read(one)
    weaker = [Given(key, text, f"profile {chosen}") for key, text in PROFILES[chosen].items()]
    if small_files:
        weaker += [Given(key, text, "--small-files") for key, text in SMALL_FILES.items()]
    idle = {one.key for one in settings_of(BrokerConfig) if one.attribute in NOT_READ_YET}
    alone = idle_keys(first)
    heard = _HEARD | TLS_HEARD | kept_anyway(first)
    choice = Choice(
        [*usual, *weaker, *given],
        settings,
        known,
        heard=heard if alone else heard | HEARD,
        idle=idle | alone,
    )
    values = choice.values(settings_of(BrokerConfig))
    root = values.setdefault("data", DEFAULT_DATA).expanduser()
    values["data"] = root
    _refuse_promises(choice, root)
    _check_advertised(choice)
    if values.get("acl_enabled"):
        _find_plain_acl(choice, values)
    store = _store_config(choice, StoreConfig(root=root))
    replication = replication_of(choice, values)
    config = choice.build(
        BrokerConfig, **values, store=store, replication=replication, tls=tls_of(choice)
    )
    _check_auth(choice, config)
    _warn_of_limits(choice, config, store)
    return LoadedBroker(config, choice)


def _store_config(choice: Choice, base: StoreConfig) -> StoreConfig:
    values = choice.values(STORE_SETTINGS)
    if (size := values.get("queue_file_bytes")) is not None:
        whole = -(-size // _QUEUE_ENTRY_BYTES) * _QUEUE_ENTRY_BYTES
        values["queue_file_bytes"] = whole
        _warn_if(
            choice, "mappedFileSizeConsumeQueue", size != whole, f"it is rounded up to {whole}"
        )
    # Files of many installations say 88 here and nothing of the next step, which comes at 85: then
    # the oldest files go at 85, expired or not, and that is what happens here as well.
    used = values.get("used_ratio", base.used_ratio)
    force = values.get("force_ratio", base.force_ratio)
    full = values.get("full_ratio", base.full_ratio)
    if force > full:
        keys = ("diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio")
        wrong = next(filter(None, map(choice.given, keys)))
        raise ConfigError(
            wrong.origin,
            f"{wrong.name}={wrong.text!r}: sends would be refused at {full} percent, before the "
            f"oldest files go at {force}: have {keys[1]} be no less than {keys[0]}",
        )
    values["used_ratio"] = min(used, force)
    _warn_if(
        choice,
        "diskMaxUsedSpaceRatio",
        used > force,
        f"{force} counts, since from there on the oldest files go anyway: see "
        "diskSpaceCleanForciblyRatio",
    )
    try:
        return dataclasses.replace(base, **values)
    except ValueError as error:
        raise choice.blamed(error) from error


def _warn_of_limits(choice: Choice, config: BrokerConfig, store: StoreConfig) -> None:
    """Say which values were taken, and cannot be what counts."""
    _warn_if(
        choice,
        "brokerIP1",
        is_loopback(config.host) and not is_loopback(_told(config)),
        f"clients are told so, but only this machine reaches it, at {config.host}: to have others "
        "reach it, add --bind and --insecure",
    )
    least, most = REGISTER_EVERY_MS
    every_ms = config.register_every_ms
    counts = least if every_ms < least else most
    _warn_if(
        choice,
        "registerNameServerPeriod",
        not least <= every_ms <= most,
        f"{counts} counts: NameServers are told every 10 to 60 seconds",
    )
    _warn_if(
        choice,
        "maxMessageSize",
        config.max_message_bytes >= store.segment_bytes,
        f"a message fits into a file of the log, and these have {store.segment_bytes} bytes: see "
        "mappedFileSizeCommitLog",
    )
    for key, (attribute, room, files) in _SIZED.items():
        given = choice.given(key)
        if given is None or given.origin.startswith(("profile ", "--small-files")):
            continue
        wanted = getattr(store, attribute)
        held = getattr(StoreLayout(store.root), room).glob(files)
        there = next((each.stat().st_size for each in held), wanted)
        _warn_if(
            choice,
            key,
            there != wanted,
            f"a store keeps the size of its files, and those in {store.root} have {there} bytes",
        )


def _told(config: BrokerConfig) -> str:
    """The host that clients are told to connect to."""
    bound = f"{config.host}:{config.port}"
    return split_address(advertised_address(config.advertise, bound))[0]


def _warn_if(choice: Choice, key: str, wrong: bool, what: str) -> None:
    given = choice.given(key)
    if wrong and given is not None:
        choice.warn(f"{said(given)}: {what}")


def _check_advertised(choice: Choice) -> None:
    given = choice.given("brokerIP1")
    if given is not None:
        try:
            advertised_address(given.text.strip() or None, "127.0.0.1:0")
        except ValueError as error:
            raise ConfigError(
                given.origin, f"{given.name}={given.text!r}: HOST or HOST:PORT is expected"
            ) from error


def _find_plain_acl(choice: Choice, values: dict[str, Any]) -> None:
    """Take the file of accounts that is beside the one that switched access control on."""
    origin = Path(choice.origin("aclEnable").partition(" line ")[0].partition(" [")[0])
    beside = origin.with_name(PLAIN_ACL)
    if "plain_acl_file" not in values and origin.is_file() and beside.is_file():
        values["plain_acl_file"] = beside.absolute()


def _check_auth(choice: Choice, config: BrokerConfig) -> None:
    try:
        config.check_auth()
    except ConfigError as error:
        given = choice.given(error.where)
        if given is None:
            raise
        text = shown(error.where, given.text)
        raise ConfigError(given.origin, f"{given.name}={text!r}: {error.reason}") from None


@dataclass(frozen=True, slots=True)
class _Promise:
    """A key, which of its values can be kept, and what to do about the others."""

    key: str
    kept: Callable[[str], bool]
    instead: str


def _is(*texts: str) -> Callable[[str], bool]:
    return lambda text: text.strip().lower() in texts


def _is_class(*names: str) -> Callable[[str], bool]:
    return lambda text: not text.strip() or text.strip().rpartition(".")[2] in names


def _strategies(what: str) -> tuple[str, str]:
    # Each request is checked, whichever is named.
    return f"Stateless{what}Strategy", f"Stateful{what}Strategy"


_ELECTED: Final = "set it to false, and zookeeperAddr to have a leader elected"
_PROMISES: Final = (
    *(
        _Promise(
            f"{what}{part}",
            _is_class(*names),
            f"only RocketMQ's own can be named here: {', '.join(names)}",
        )
        for what, part, names in (
            ("authentication", "Provider", ("DefaultAuthenticationProvider",)),
            ("authorization", "Provider", ("DefaultAuthorizationProvider",)),
            ("authentication", "MetadataProvider", ("LocalAuthenticationMetadataProvider",)),
            ("authorization", "MetadataProvider", ("LocalAuthorizationMetadataProvider",)),
            ("authentication", "Strategy", _strategies("Authentication")),
            ("authorization", "Strategy", _strategies("Authorization")),
        )
    ),
    _Promise("enableDLegerCommitLog", _is("false"), f"there is no DLedger: {_ELECTED}"),
    _Promise("enableControllerMode", _is("false"), f"there is no controller: {_ELECTED}"),
    _Promise(
        "duplicationEnable",
        _is("false"),
        "nobody else can write this broker's log: set it to false, and brokerRole to have replicas",
    ),
    _Promise("storeType", _is("default"), "only RocketMQ's files are kept: set it to default"),
)
#: Read once: what is refused unless it is as it is here.
_HEARD: Final = frozenset({"storePathCommitLog", *(one.key for one in _PROMISES)})


def _refuse_promises(choice: Choice, root: Path) -> None:
    log = StoreLayout(root).commit_log
    in_place = _Promise(
        "storePathCommitLog",
        lambda text: Path(text.strip()).expanduser().absolute() == log.absolute(),
        f"the log is in {log}: leave the key out, or make that directory a link",
    )
    for promise in (*_PROMISES, in_place):
        given = choice.given(promise.key)
        if given is not None and not promise.kept(given.text):
            raise ConfigError(given.origin, f"{given.name}={given.text!r}: {promise.instead}")
