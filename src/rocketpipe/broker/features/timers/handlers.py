"""Answers to producers who take a message back before it falls due, and to Apache's slaves."""

from __future__ import annotations

from dataclasses import astuple

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.features.timers.timers import Timers
from rocketpipe.broker.intake.intake import Intake, unreadable
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.clock import Clock
from rocketpipe.errors import InvalidName, RequestRejected, StoreError
from rocketpipe.model.host import Host
from rocketpipe.model.ids import RecallHandle
from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.replication import (
    GetTimerCheckPoint,
    GetTimerMetrics,
    TimerCheckPointReply,
    TimerMetrics,
    TimerMetricsReply,
)
from rocketpipe.protocol.requests.sending import RecallMessage, RecallMessageReply
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.timers.entry import PRECISION_MS
from rocketpipe.store.timers.handover import CHECK, TimerCheck


class TimerHandlers:
    """Takes messages back, by the handle that their sends were answered with."""

    def __init__(
        self,
        config: BrokerConfig,
        intake: Intake,
        topic_provider: TopicProvider,
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._config = config
        self._intake = intake
        self._topic_provider = topic_provider
        self._timers = timers
        self._clock = clock

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on."""
        self._config = config

    @handles(RecallMessage)
    async def recall(self, request: RecallMessage, call: Call) -> RecallMessageReply:
        if not self._config.recall:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                "recall failed, operation is forbidden: recallMessageEnable is false",
            )
        self._intake.admit()
        if self._topic_provider.known(request.topic) is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"recall failed, the topic[{request.topic}] not exist",
            )
        try:
            handle = RecallHandle.parse(request.recall_handle)
        except InvalidName as error:
            raise _illegal(str(error)) from error
        if handle.topic != request.topic:
            raise _illegal("topic not match")
        if handle.broker != self._config.name:
            raise _illegal(f"this is broker {self._config.name}, it waits at {handle.broker}")
        left_ms = handle.deliver_ms - self._clock.now_ms()
        if left_ms <= 0:
            raise _illegal("timestamp invalid: it is due by now")
        born_host = Host.parse(call.peer.address).pack()
        await self._timers.recall(handle, request.producer_group or "", born_host)
        return RecallMessageReply(msg_id=handle.unique_key)


class TimerStateHandlers:
    """Tells Apache's slaves how far timed messages are: they take over there."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @handles(GetTimerCheckPoint)
    async def check_point(self, request: GetTimerCheckPoint, call: Call) -> TimerCheckPointReply:
        now_ms = self._clock.now_ms()
        try:
            delivered_ms = self._store.derived.timer.delivered_to_ms(now_ms)
            noted = self._store.max_offset(TIMER_TOPIC, 0)
        except StoreError as error:
            raise unreadable(error) from error
        check = TimerCheck(
            last_read_ms=delivered_ms // PRECISION_MS * PRECISION_MS,
            queue_offset=noted,
            master_queue_offset=noted,
            changed_ms=now_ms,
        )
        return TimerCheckPointReply(numbers=CHECK.pack(*astuple(check)))

    @handles(GetTimerMetrics)
    async def metrics(self, request: GetTimerMetrics, call: Call) -> TimerMetricsReply:
        """How many wait is not counted by topic here, so nothing is said of any."""
        return TimerMetricsReply(metrics=TimerMetrics())


def _illegal(reason: str) -> RequestRejected:
    return RequestRejected(ResponseCode.ILLEGAL_OPERATION, f"recall failed, {reason}")
