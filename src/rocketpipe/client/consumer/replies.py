"""Replies to messages that are questions, sent by whoever consumed them.

A reply goes to the broker that the question came from: whoever asked is connected there. Where a
Java client would go round the brokers of the reply topic, a reply could reach one that does not
know who asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.session import Session
from rocketpipe.errors import MessageRefused
from rocketpipe.model import properties as well_known
from rocketpipe.model.message import Message, Readable
from rocketpipe.model.names import AUTO_CREATE_TOPIC, reply_topic
from rocketpipe.protocol.requests.sending import SendReply

REPLY_TIMEOUT_MS: Final = 3000
#: What ``MSG_TYPE`` says of a reply.
REPLY: Final = "reply"
_COPIED: Final = (well_known.CORRELATION_ID, well_known.REPLY_TO_CLIENT, well_known.TTL)

#: Not ``Self``: blocking clients take the method from the class, for the consumer that they wrap.
RepliesT = TypeVar("RepliesT", bound="Replies")


class Replies:
    """The part of a consumer that replies to questions."""

    _session: Session
    group: str

    async def reply(
        self: RepliesT,
        question: ReceivedMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        oneway: bool = False,
        timeout_ms: int = REPLY_TIMEOUT_MS,
    ) -> None:
        """Reply to a message that was sent by ``Producer.request``.

        With ``oneway`` nobody says whether the reply arrived.

        Raises:
            MessageRefused: If the message is no question, or the reply is empty.
            PropertiesError: If a property may not be set.
            RequestRejected: If whoever asked is gone, or waits no longer.
            NoRoute, ConnectionLost, CallTimeout: If the broker is out of reach.
        """
        session, queue = self._session, question.queue
        now_ms = session.clock.now_ms()
        message_id = session.keys.next(now_ms)
        request = reply_to(question, body, properties or {}, self.group, message_id, now_ms)
        if oneway:
            address = session.leader_of(queue, await session.routes.get(queue.topic))
            await session.caller.tell(address, request)
        else:
            await session.leaders.ask(queue, request, timeout_ms, patient=True)


def reply_to(
    question: Readable,
    body: bytes,
    own: Mapping[str, str],
    group: str,
    message_id: str,
    now_ms: int,
) -> SendReply:
    """The request that carries a reply to whoever asked.

    Raises:
        MessageRefused: If the message is no question, or the reply is empty.
        PropertiesError: If a property of one's own may not be set.
    """
    asked = question.properties
    cluster = asked.get(well_known.CLUSTER)
    missing = [name for name in (*_COPIED, well_known.CLUSTER) if not asked.get(name)]
    if missing or cluster is None:
        reason = f"message {question.message_id} asks for no reply: it has no {missing[0]}"
        raise MessageRefused("a reply", reason, "reply to what was sent by Producer.request")
    topic = reply_topic(cluster)
    if not body:
        raise MessageRefused(topic, "an empty body", "send at least one byte")
    named = Message(topic, body, properties=own).all_properties()
    named[well_known.MESSAGE_TYPE] = REPLY
    for name in _COPIED:
        named[name] = asked[name]
    named[well_known.UNIQ_KEY] = message_id
    return SendReply(
        producer_group=group,
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=now_ms,
        flag=0,
        properties=well_known.encode(named),
        body=body,
    )
