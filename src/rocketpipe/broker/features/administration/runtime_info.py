"""How a broker fares, in the words that RocketMQ's tools and dashboards look for.

They divide by some of these numbers and cut others apart, so every name is always there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.stats import MINUTE_MS, Stats, Tally
from rocketpipe.broker.tables.delays import DelayTable
from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.protocol.codes import OUR_VERSION
from rocketpipe.record.codec import RecordView
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Retention

_WINDOWS_MS: Final = (10_000, MINUTE_MS, 10 * MINUTE_MS)
_DAY_MS: Final = 86_400_000


class RuntimeInfo:
    """Gathers the numbers from those who know them."""

    def __init__(
        self,
        store: MessageStore,
        retention: Retention,
        stats: Stats,
        settings: LiveSettings,
        clock: Clock,
        leads: Callable[[], bool],
        unfinished: Mapping[str, Callable[[], int]],
    ) -> None:
        self._unfinished = unfinished
        self._leads = leads
        self._store = store
        self._retention = retention
        self._stats = stats
        self._settings = settings
        self._clock = clock
        self._timed_at_start = len(store.derived.timer)

    def values(
        self, visibility: Visibility, waiting: WaitingPulls, delays: DelayTable
    ) -> dict[str, str]:
        """Every number by its name, given who waits and how far delayed messages are.

        Raises:
            StoreError: The disk cannot be asked for its room.
        """
        return {
            **self._traffic(),
            **self._totals(),
            **self._disk(),
            **self._waiting(visibility, waiting),
            **self._delayed(delays),
            **self._timed(),
            # Ours: what was begun, and has to end before the broker can go.
            **{name: str(count()) for name, count in self._unfinished.items()},
            # Whether delayed messages are delivered here, and whatever else one of a group does.
            "brokerActive": "true" if self._leads() else "false",
            "brokerVersionDesc": OUR_VERSION.name,
            "brokerVersion": str(int(OUR_VERSION)),
            "bootTimestamp": str(self._stats.started_ms),
            "runtime": _span(self._clock.now_ms() - self._stats.started_ms),
            "startAcceptSendRequestTimeStamp": str(self._settings.now.accept_sends_at_ms),
        }

    def _traffic(self) -> dict[str, str]:
        stats = self._stats
        stored = stats.puts
        return {
            "putTps": self._rates(stored),
            "getFoundTps": self._rates(stats.found),
            "getMissTps": self._rates(stats.missed),
            "getTotalTps": self._rates(stats.found, stats.missed),
            "getTransferredTps": self._rates(stats.gets),
            # Brokers before 5.0 spelled it so, and old tools still look for it.
            "getTransferedTps": self._rates(stats.gets),
            "putMessageTimesTotal": str(stored.count),
            "putMessageSizeTotal": str(stored.bytes),
            "putMessageFailedTimes": str(stats.failed_puts),
            "putMessageAverageSize": str(stored.bytes / stored.count if stored.count else 0.0),
            "putMessageEntireTimeMax": str(stats.slowest_put_ms),
            "putMessageDistributeTime": stats.put_times(),
            "putLatency99": str(float(stats.put_time_below(0.99))),
            "putLatency999": str(float(stats.put_time_below(0.999))),
            "getMessageEntireTimeMax": str(stats.slowest_get_ms),
            "dispatchMaxBuffer": str(self._store.derived.pending_bytes),
        }

    def _totals(self) -> dict[str, str]:
        stats = self._stats
        stats.settle()
        return {
            "msgPutTotalYesterdayMorning": str(stats.put_days.yesterday_morning),
            "msgPutTotalTodayMorning": str(stats.put_days.this_morning),
            "msgPutTotalTodayNow": str(stats.puts.count),
            "msgGetTotalYesterdayMorning": str(stats.get_days.yesterday_morning),
            "msgGetTotalTodayMorning": str(stats.get_days.this_morning),
            "msgGetTotalTodayNow": str(stats.gets.count),
        }

    def _disk(self) -> dict[str, str]:
        store = self._store
        ratio = str(self._retention.used_percent() / 100)
        total, free = self._retention.room()
        return {
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{store.config.root / 'commitlog'}": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogMinOffset": str(store.first_offset),
            "commitLogMaxOffset": str(store.positions.written),
            "commitLogDirCapacity": f"Total : {_bytes(total)}, Free : {_bytes(free)}.",
            "remainHowManyDataToFlush": _bytes(store.positions.written - store.positions.durable),
            # Of a pool of buffers that this broker does not have: nothing is ever left in it.
            "remainHowManyDataToCommit": _bytes(0),
            "remainTransientStoreBufferNumbs": str((1 << 31) - 1),
            "dispatchBehindBytes": str(store.behind_bytes),
            # These two are ours.
            "damagedRecords": str(store.damaged.count),
            "damagedFiles": str(store.derived.repairs.found),
            # There is one writer, and it holds no lock.
            "pageCacheLockTimeMills": "0",
            "earliestMessageTimeStamp": str(self._oldest_ms()),
        }

    def _waiting(self, visibility: Visibility, waiting: WaitingPulls) -> dict[str, str]:
        config = self._settings.now
        queues = {
            "send": (visibility.waiting, config.max_waiting_sends),
            "pull": (len(waiting), config.max_waiting_pulls),
            "litePull": (len(waiting), config.max_waiting_pulls),
            # Answered in the turn in which they come.
            "query": (0, config.max_connections),
            "ack": (0, config.max_connections),
        }
        found: dict[str, str] = {}
        for name, (size, most) in queues.items():
            found[f"{name}ThreadPoolQueueSize"] = str(size)
            found[f"{name}ThreadPoolQueueCapacity"] = str(most)
            # Nobody waits for a thread here.
            found[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        found["EndTransactionQueueSize"] = str(visibility.waiting)
        found["EndTransactionThreadPoolQueueCapacity"] = str(config.max_waiting_sends)
        return found

    def _delayed(self, delays: DelayTable) -> dict[str, str]:
        found = {}
        for level in range(1, len(self._store.config.delay_levels.split()) + 1):
            read = delays.next_offset(level) or 0
            end = self._store.max_offset(SCHEDULE_TOPIC, level - 1)
            found[f"scheduleMessageOffset_{level}"] = f"{read},{end}"
        return found

    def _timed(self) -> dict[str, str]:
        wheel = self._store.derived.timer
        due_ms = wheel.next_due_ms()
        now_ms = self._clock.now_ms()
        behind_s = 0 if due_ms is None else max(0, now_ms - due_ms) // 1000
        came = self._stats.of_topic(TIMER_TOPIC)
        gone = self._timed_at_start + (came.count if came else 0) - len(wheel)
        up_s = max(1.0, (now_ms - self._stats.started_ms) / 1000)
        return {
            "timerReadBehind": str(behind_s),
            # It follows the log with the queues, and is never behind them.
            "timerOffsetBehind": "0",
            "timerCongestNum": str(len(wheel)),
            "timerEnqueueTps": str(self._stats.topic_rate(TIMER_TOPIC)),
            "timerDequeueTps": str(max(0, gone) / up_s),
        }

    def _rates(self, *tallies: Tally) -> str:
        at_ms = self._stats.now_ms
        return " ".join(
            str(sum(tally.rate(at_ms, span) for tally in tallies)) for span in _WINDOWS_MS
        )

    def _oldest_ms(self) -> int:
        """When the first record of the log was stored; now, if it has none."""
        try:
            return RecordView(self._store.record_at(self._store.first_offset)).stored_ms
        except StoreError:
            return self._clock.now_ms()


def _bytes(count: int) -> str:
    """As RocketMQ writes sizes: ``512 B``, ``1.5 GiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def _span(duration_ms: int) -> str:
    days, rest = divmod(duration_ms, _DAY_MS)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {rest // 1000} seconds ]"
