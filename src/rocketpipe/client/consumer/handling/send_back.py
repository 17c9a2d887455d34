"""Gives messages that could not be consumed back, so that they come again or become dead letters.

asked of the message's own broker (36)          it knows the message by its place in the log
or else sent anew to %RETRY%group               to any broker that the group has
or else                                         the caller tries again by itself
"""

from __future__ import annotations

import logging
from typing import Final

from rocketpipe.client.consumer.handling.retry_limit import RetryLimit
from rocketpipe.client.consumer.outcome import DEAD_LETTER
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model import flags
from rocketpipe.model import properties as well_known
from rocketpipe.model.names import AUTO_CREATE_TOPIC, retry_topic
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageBack
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT_MS: Final = 5000
RESEND_TIMEOUT_MS: Final = 3000
#: So many queues of the retry topic are tried.
RESENDS: Final = 3
#: The level of the first retry: ten seconds.
FIRST_LEVEL: Final = 3
#: What Java's consumers send it as; no application's group may be called so.
PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"


class SendBack:
    """Takes back what a group's handlers could not use."""

    def __init__(self, session: Session, group: str, limit: RetryLimit) -> None:
        self._session = session
        self._group = group
        self._topic = retry_topic(group)
        self._limit = limit
        self._lines = LogBudget()

    async def is_spent(self, message: ReceivedMessage) -> bool:
        """Whether a message has had all its retries, so that the next failure is its last."""
        return message.reconsume_times >= await self._limit.at(message.queue)

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """Have a message delivered again later; False when nobody takes it.

        ``delay_level`` is 0 for the broker's choice by attempt, -1 for the dead letters at once.
        """
        request = SendMessageBack(
            offset=message.log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=self._limit.said,
            broker_name=message.queue.broker_name,
        )
        try:
            await self._session.leaders.ask(message.queue, request, SEND_BACK_TIMEOUT_MS)
        except RocketPipeError as error:
            self._complain("message not taken back", message, error)
            return await self.resend(message, delay_level)
        return True

    async def resend(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """Send a message to the group's retry topic as if it were new; False when nobody takes it.

        One that has had its attempts, or is given up, is put with the dead letters by the broker.
        """
        most = await self._limit.at(message.queue)
        times = message.reconsume_times + 1
        if delay_level == DEAD_LETTER:
            times = max(times, min(most, _MOST_TIMES - 1) + 1)
        level = delay_level if delay_level > 0 else FIRST_LEVEL + message.reconsume_times
        changes = {
            well_known.RETRY_TOPIC: message.topic,
            well_known.ORIGIN_MESSAGE_ID: message.properties.get(well_known.ORIGIN_MESSAGE_ID)
            or message.message_id,
            well_known.DELAY: str(min(level, _MOST_LEVEL)),
            well_known.TRANSACTION_PREPARED: None,
        }
        try:
            route = await self._session.routes.get_for_send(self._topic)
        except RocketPipeError as error:
            self._complain("message not resent", message, error)
            return False
        queues = route.writable_queues(self._topic)
        self._session.chance.shuffle(queues)
        for queue in queues[:RESENDS]:
            request = SendMessage(
                producer_group=PRODUCER_GROUP,
                topic=self._topic,
                default_topic=AUTO_CREATE_TOPIC,
                default_topic_queue_nums=1,
                queue_id=queue.queue_id,
                # The body goes as it is stored, compressed or not.
                sys_flag=message.sys_flag & (flags.COMPRESSED | flags.COMPRESSION_BITS),
                born_timestamp=message.born_ms,
                flag=message.flag,
                properties=well_known.read_text(well_known.edited(message.raw_properties, changes)),
                reconsume_times=times,
                max_reconsume_times=most,
                broker_name=queue.broker_name,
                body=message.stored_body,
            )
            address: str | None = None
            try:
                address = self._session.leader_of(queue, route)
                await self._session.caller.call(address, request, RESEND_TIMEOUT_MS)
            except RocketPipeError as error:
                self._session.routes.learn(self._topic, queue.broker_name, address, error)
                self._complain("message not resent", message, error)
            else:
                return True
        return False

    def _complain(self, what: str, message: ReceivedMessage, error: RocketPipeError) -> None:
        if self._lines.allows():
            log.warning(
                "%s group=%s message=%r reason=%s%s",
                what,
                self._group,
                message,
                error,
                self._lines.suppressed(),
            )


_MOST_TIMES: Final = (1 << 31) - 1
_MOST_LEVEL: Final = 18
