"""Answers about the broker itself: its settings, how it fares, and cleaning it up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.features.administration.read_mode import CannotAdvise, ReadMode
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.stats import MINUTE_MS, Span, Stats, Tally
from rocketpipe.broker.store_steps import run_steps
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.config.conf_file import conf_values
from rocketpipe.config.live import SettingForbidden, SettingRefused
from rocketpipe.errors import ConfigError, RequestRejected, StoreError
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import (
    AllConsumerOffsetsReply,
    AllDelayOffsetsReply,
    BrokerConfigReply,
    BrokerStatsReply,
    CleanExpiredQueues,
    CleanUnusedTopics,
    ConsumerOffsetTable,
    DelayOffsetTable,
    DeleteExpiredLog,
    GetAllConsumerOffsets,
    GetAllDelayOffsets,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    LogReadModeReply,
    RuntimeInfoReply,
    SetLogReadMode,
    StatsWindow,
    StatsWindows,
    UpdateBrokerConfig,
    ViewBrokerStats,
)
from rocketpipe.protocol.requests.routes import KeyValues
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Retention

log = logging.getLogger(__name__)

MAX_CONFIG_BYTES: Final = 1 << 20

#: As ``madvise`` numbers them.
_AHEAD: Final = 0
_AS_ASKED: Final = 1

_refusals = LogBudget()


class SettingHandlers:
    """Shows settings, and changes those that may be changed."""

    def __init__(self, settings: LiveSettings, registrar: Registrar) -> None:
        self._settings = settings
        self._registrar = registrar

    @handles(GetBrokerConfig)
    async def show(self, request: GetBrokerConfig, call: Call) -> BrokerConfigReply:
        return BrokerConfigReply(
            version=fastjson.write(self._settings.version).decode(),
            live_keys=",".join(self._settings.live_keys),
            properties=self._settings.text().encode(),
        )

    @handles(UpdateBrokerConfig)
    async def change(self, request: UpdateBrokerConfig, call: Call) -> None:
        if len(request.properties) > MAX_CONFIG_BYTES:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"settings are at most {MAX_CONFIG_BYTES} bytes"
            )
        try:
            changed = self._settings.change(conf_values(request.properties, "settings"))
        except SettingForbidden as error:
            if _refusals.allows():
                log.warning(
                    "setting not changed peer=%s reason=%s%s",
                    call.peer.address,
                    error,
                    _refusals.suppressed(),
                )
            raise RequestRejected(ResponseCode.NO_PERMISSION, str(error)) from error
        except (SettingRefused, ConfigError) as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        if changed:
            log.info("settings changed peer=%s keys=%s", call.peer.address, ",".join(changed))
        if "brokerPermission" in changed:
            await self._registrar.register()


class StatsHandlers:
    """Tells how the broker fares."""

    def __init__(
        self, values: Callable[[], dict[str, str]], stats: Stats, cluster: str, tables: Tables
    ) -> None:
        """Take what gathers the numbers: it may raise StoreError."""
        self._values = values
        self._stats = stats
        self._cluster = cluster
        self._tables = tables

    @handles(GetBrokerRuntimeInfo)
    async def runtime(self, request: GetBrokerRuntimeInfo, call: Call) -> RuntimeInfoReply:
        try:
            return RuntimeInfoReply(values=KeyValues(table=self._values()))
        except StoreError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error

    @handles(ViewBrokerStats)
    async def stats(self, request: ViewBrokerStats, call: Call) -> BrokerStatsReply:
        found = self._tally(request.stats_name, request.stats_key)
        if found is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"The stats <{request.stats_name[:80]}> <{request.stats_key[:300]}> not exist",
            )
        tally, sizes = found
        at_ms = self._stats.now_ms
        tally.settle(at_ms)
        return BrokerStatsReply(
            stats=StatsWindows(
                minute=_window(tally.minute, tally.minute_bytes, sizes, at_ms, MINUTE_MS),
                hour=_window(tally.hour, tally.hour_bytes, sizes, at_ms),
                day=_window(tally.day, tally.day_bytes, sizes, at_ms),
            )
        )

    def _tally(self, name: str, key: str) -> tuple[Tally, bool] | None:
        """What a name and a key stand for, and whether its bytes are meant."""
        topic, _, group = key.partition("@")
        stats = self._stats
        tally = None
        match name:
            case "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE":
                tally = stats.of_topic(key)
            case "GROUP_GET_NUMS" | "GROUP_GET_SIZE":
                tally = stats.of_group(group, topic)
            case "SNDBCK_PUT_NUMS":
                tally = stats.of_sent_back(group, topic)
            case "BROKER_PUT_NUMS" if key == self._cluster:
                tally = stats.puts
            case "BROKER_GET_NUMS" if key == self._cluster:
                tally = stats.gets
        return None if tally is None else (tally, name.endswith("_SIZE"))

    @handles(GetAllConsumerOffsets)
    async def offsets(self, request: GetAllConsumerOffsets, call: Call) -> AllConsumerOffsetsReply:
        file = self._tables.offsets.to_file(self._tables.now_ms)
        return AllConsumerOffsetsReply(
            table=ConsumerOffsetTable(version=file.version, offsets=file.offsets)
        )

    @handles(GetAllDelayOffsets)
    async def delays(self, request: GetAllDelayOffsets, call: Call) -> AllDelayOffsetsReply:
        delays = self._tables.delays
        return AllDelayOffsetsReply(
            table=DelayOffsetTable(version=delays.version, offsets=delays.all())
        )


class CleaningHandlers:
    """Removes what nobody can read any more."""

    def __init__(self, store: MessageStore, retention: Retention, tables: Tables) -> None:
        self._store = store
        self._retention = retention
        self._tables = tables

    @handles(CleanExpiredQueues)
    async def queues(self, request: CleanExpiredQueues, call: Call) -> None:
        try:
            await run_steps(self._store.removal.cleaning())
        except StoreError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error

    @handles(CleanUnusedTopics)
    async def topics(self, request: CleanUnusedTopics, call: Call) -> None:
        topics = self._tables.topics
        unused = [
            (name, queue_id)
            for name, queue_id in self._store.queues()
            if topics.get(name) is None and not topics.is_system(name)
        ]
        try:
            for name, queue_id in unused:
                self._store.derived.queues.delete(name, queue_id)
            await run_steps(self._store.rounds.syncing())
        except StoreError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        log.info("queues without a topic removed count=%d", len(unused))

    @handles(DeleteExpiredLog)
    async def expired_log(self, request: DeleteExpiredLog, call: Call) -> None:
        try:
            await run_steps(self._retention.running(on_request=True))
        except StoreError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error


class ReadModeHandlers:
    """Has the log read ahead, or not."""

    def __init__(self, mode: ReadMode) -> None:
        self._mode = mode

    @handles(SetLogReadMode)
    async def set_mode(self, request: SetLogReadMode, call: Call) -> LogReadModeReply:
        if request.mode not in (_AHEAD, _AS_ASKED):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"READ_AHEAD_MODE is {request.mode}: {_AHEAD} reads ahead, {_AS_ASKED} does not",
            )
        try:
            files = self._mode.set(random=request.mode == _AS_ASKED)
        except (CannotAdvise, StoreError, OSError) as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        log.info("log is read mode=%d files=%d peer=%s", request.mode, files, call.peer.address)
        return LogReadModeReply(
            remark=f"set commitlog readahead mode success, mode: {request.mode}, files: {files}"
        )


def _window(
    counts: Span, sizes: Span, want_sizes: bool, at_ms: int, within_ms: int | None = None
) -> StatsWindow:
    count = counts.total(at_ms, within_ms)
    total = sizes.total(at_ms, within_ms) if want_sizes else count
    return StatsWindow(
        total=total,
        tps=1000 * total / counts.covered_ms(at_ms, within_ms),
        average=total / count if count else 0.0,
    )
