"""Where a message waits that is not to show at once: with its delay level, or until its moment.

DELAY above 0                        SCHEDULE_TOPIC_XXXX; timers are dropped, a level counts more
TIMER_DELAY_SEC, TIMER_DELAY_MS,     rmq_sys_wheel_timer, with TIMER_OUT_MS, REAL_TOPIC and
TIMER_DELIVER_MS, the first that is  REAL_QID; 13 beyond timerMaxDelaySec, 2 while
                                     maxWaitingTimers wait
… a moment that has passed           its own topic, as a message without a delay
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sized
from typing import Final

from rocketpipe.broker.delivery.delay import DelayLevels
from rocketpipe.broker.intake.sent_properties import TIMERS
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.log.puts import Put
from rocketpipe.store.timers.entry import out_ms

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_LEVEL: Final = re.compile(r"\+?[0-9]{1,10}")


class Deferral:
    """Sends messages to where they wait, if they are to."""

    def __init__(
        self,
        delays: DelayLevels,
        clock: Clock,
        *,
        most_ms: int | None,
        waiting: Sized = (),
        most_waiting: int = sys.maxsize,
    ) -> None:
        """``most_ms`` is the longest that a message waits for its moment; None for no limit.

        None is taken while there are ``most_waiting`` in ``waiting``.
        """
        self._delays = delays
        self._clock = clock
        self._most_ms = most_ms
        self._waiting = waiting
        self._most_waiting = most_waiting

    def parked(self, put: Put) -> Put:
        """The message where it waits; or as it was, if it asks for no delay.

        Raises:
            RequestRejected: It asks for a time that is none, or is too far away, or too many wait.
        """
        given = properties.decode_bytes(put.properties)
        level = given.get(properties.DELAY, "")
        if _LEVEL.fullmatch(level) and int(level) > 0:
            return self._delays.parked(put, int(level))
        return self._timed(put, given)

    def _timed(self, put: Put, given: Mapping[str, str]) -> Put:
        if properties.TIMER_OUT_MS in given:
            return put  # it has waited
        now_ms = self._clock.now_ms()
        deliver_ms = self._deliver_ms(given, now_ms)
        if deliver_ms is None or deliver_ms <= now_ms:
            return put
        if self._most_ms is not None and deliver_ms - now_ms > self._most_ms:
            raise self._illegal()
        if len(self._waiting) >= self._most_waiting:
            raise RequestRejected(
                ResponseCode.SYSTEM_BUSY,
                f"{self._most_waiting} timed messages wait on this broker, and no more may: send "
                "it once some have been delivered, or raise maxWaitingTimers",
            )
        changes = {
            properties.TIMER_OUT_MS: str(out_ms(deliver_ms)),
            properties.REAL_TOPIC: put.topic,
            properties.REAL_QUEUE_ID: str(put.queue_id),
        }
        if not any(name in given for name in TIMERS[:3]):
            changes[properties.TIMER_DELIVER_MS] = str(deliver_ms)  # so that any broker knows
        text = properties.edited(put.properties, changes)
        return put._replace(topic=TIMER_TOPIC, queue_id=0, properties=text)

    def _deliver_ms(self, given: Mapping[str, str], now_ms: int) -> int | None:
        for name, unit_ms, base_ms in (
            (properties.TIMER_DELAY_SEC, 1000, now_ms),
            (properties.TIMER_DELAY_MS, 1, now_ms),
            (properties.TIMER_DELIVER_MS, 1, 0),
            (properties.START_DELIVER_TIME, 1, 0),
        ):
            text = given.get(name)
            if text is not None:
                if not _NUMBER.fullmatch(text):
                    raise self._illegal(f": {name} is {text[:20]!r}, and no number")
                return base_ms + unit_ms * int(text)
        return None

    def _illegal(self, reason: str = "") -> RequestRejected:
        return RequestRejected(
            ResponseCode.MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{self._most_ms}ms{reason}",
        )
