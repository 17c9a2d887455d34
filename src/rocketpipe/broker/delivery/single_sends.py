"""A message that was sent by itself: checked, and made what is stored of it.

a delay, or a moment    where it waits (see ``deferral``)
a transaction's         half a message, which waits for its producer
neither                 its own topic and queue
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.intake.half_messages import half_of
from rocketpipe.broker.intake.open_transaction_limit import OpenTransactionLimit
from rocketpipe.broker.intake.sent_properties import BrokerProperties, SendOptions
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.flags import BORN_HOST_V6, INNER_BATCH, MULTI_TAGS, TRANSACTION_BITS
from rocketpipe.model.ids import RecallHandle
from rocketpipe.model.names import TIMER_TOPIC, is_retry_topic
from rocketpipe.model.topic import (
    CLEANUP_POLICY,
    MESSAGE_TYPE,
    MessageType,
    TopicFilterType,
    TopicSettings,
)
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.record.layout import HOST_BITS
from rocketpipe.store.log.puts import Put

#: Topics of these types take what others do not.
_ANY_TYPE: Final = (MessageType.MIXED, MessageType.UNSPECIFIED)
_IN_ORDER_OR_NOT: Final = {MessageType.FIFO.value: MessageType.NORMAL.value}
_V4_BYTES: Final = 8


class Sent(NamedTuple):
    """What a send says beside topic and queue; ``born_host`` is packed."""

    body: bytes
    properties: str
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int = 0
    producer_group: str = ""


class SingleSends:
    """Makes what is stored of messages that are sent one by one."""

    def __init__(
        self,
        config: BrokerConfig,
        stamp: BrokerProperties,
        deferral: Deferral,
        transaction_limit: OpenTransactionLimit,
    ) -> None:
        self._config = config
        self._stamp = stamp
        self._deferral = deferral
        self._transaction_limit = transaction_limit

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on."""
        self._config = config

    def put(
        self,
        sent: Sent,
        topic: TopicSettings,
        queue_id: int,
        wishes: SendOptions,
        unique_key: str,
        *,
        may_wait: bool = True,
    ) -> Put:
        """What is stored; one that may not wait is for its own topic, whatever it asks for.

        Raises:
            RequestRejected: It is not for this topic, too long or illegal, or too many wait.
        """
        check_keys(topic, wishes)
        is_half = self._is_half(wishes, may_wait, sent.reconsume_times)
        check_type(self._config, topic, wishes, is_half=is_half)
        self.check_body(sent.body)
        new_key = None if wishes.unique_key else unique_key
        text = self._stamp.stamped(sent.properties.encode("utf-8", "replace"), new_key)
        put = plain_put(sent, topic, queue_id, text)
        if not may_wait:
            return put
        if is_half:
            self._transaction_limit.check()
            if wishes.waits:
                self._deferral.parked(put)  # or only its commit would find that it cannot wait so
            return half_of(put, unique_key, sent.producer_group)
        return self._deferral.parked(put) if wishes.waits else put

    def recall_handle(self, put: Put, unique_key: str | None) -> str | None:
        """What takes a message back that waits for its moment."""
        if put.topic != TIMER_TOPIC or unique_key is None:
            return None
        said = properties.decode_bytes(put.properties)
        topic, out_ms = said.get(properties.REAL_TOPIC), said.get(properties.TIMER_OUT_MS, "")
        if topic is None or is_retry_topic(topic) or not (out_ms.isascii() and out_ms.isdigit()):
            return None
        handle = RecallHandle(
            topic=topic,
            broker=self._config.name,
            # A millisecond more: rounded down, it is the second that the message waits for.
            deliver_ms=int(out_ms) + 1,
            unique_key=unique_key,
        )
        return str(handle)

    def check_body(self, body: bytes) -> None:
        """Refuse a body that is too long.

        Raises:
            RequestRejected: It is.
        """
        most = self._config.max_message_bytes
        if len(body) > most:
            raise illegal(f"the message body is {len(body)} bytes, {most} are the most")

    def _is_half(self, wishes: SendOptions, may_wait: bool, reconsume_times: int) -> bool:
        # Clients before 4.6.1 leave the mark in what they send to be consumed again.
        delayed = may_wait and wishes.delay_level > 0
        if not wishes.is_half or (reconsume_times > 0 and delayed):
            return False
        if self._config.reject_transactions:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._config.name}] sending transaction message is forbidden",
            )
        return True


def plain_put(sent: Sent, topic: TopicSettings, queue_id: int, text: bytes) -> Put:
    """A message for its own topic, with its properties as they are stored.

    Raises:
        RequestRejected: It says that it is an inner batch.
    """
    if sent.sys_flag & INNER_BATCH:
        raise illegal("sysFlag says inner batch, and topics of queue.type BatchCQ are not served")
    # The sender cannot know how wide the hosts in the record are, and what makes a message a
    # half one is its property: with the bit alone it would never show.
    sys_flag = sent.sys_flag & ~(HOST_BITS | TRANSACTION_BITS)
    if len(sent.born_host) > _V4_BYTES:
        sys_flag |= BORN_HOST_V6
    if topic.filter_type is TopicFilterType.MULTI_TAG:
        sys_flag |= MULTI_TAGS
    return Put(
        topic=topic.name,
        queue_id=queue_id,
        body=sent.body,
        properties=text,
        flag=sent.flag,
        sys_flag=sys_flag,
        born_ms=sent.born_ms,
        born_host=sent.born_host,
        reconsume_times=sent.reconsume_times,
    )


def check_type(
    config: BrokerConfig, topic: TopicSettings, wishes: SendOptions, *, is_half: bool = False
) -> None:
    """Refuse what a topic is not for; one that says nothing of it takes everything.

    Whether a message is one in order is not looked at: of Java's clients, which choose its
    queue by themselves, nobody could tell.

    Raises:
        RequestRejected: It is not for this.
    """
    wanted = topic.attributes.get(MESSAGE_TYPE)
    if wanted is None or not config.check_message_types or is_retry_topic(topic.name):
        return
    actual = MessageType.NORMAL
    if is_half:
        actual = MessageType.TRANSACTION
    elif wishes.waits:
        actual = MessageType.DELAY
    if _IN_ORDER_OR_NOT.get(wanted, wanted) not in (actual, *_ANY_TYPE):
        raise illegal(
            f"TopicMessageType validate failed, the expected type is {wanted}, but actual type "
            f"is {actual.value}: send it to a topic of that message.type, or to one without"
        )


def check_keys(topic: TopicSettings, wishes: SendOptions) -> None:
    """Refuse a message without a key where a topic keeps the last of each.

    Raises:
        RequestRejected: It has none.
    """
    if topic.attributes.get(CLEANUP_POLICY) == "COMPACTION" and not (wishes.keys or "").strip():
        raise illegal("Required message key is missing")


def illegal(remark: str) -> RequestRejected:
    """The refusal of what is wrong with a message itself."""
    return RequestRejected(ResponseCode.MESSAGE_ILLEGAL, remark)
