"""What kind of message something is, as RocketMQ's metrics tell them apart."""

from __future__ import annotations

import re
from typing import Final

from rocketpipe.broker.counts import DELAY, FIFO, NORMAL, TRANSACTION
from rocketpipe.broker.intake.sent_properties import TIMERS
from rocketpipe.model import properties
from rocketpipe.model.flags import Transaction, transaction_of
from rocketpipe.model.names import DLQ_PREFIX, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.store.log.puts import Put

#: Where messages wait, and what they are then, whatever else they say.
_BY_TOPIC: Final = {SCHEDULE_TOPIC: DELAY, TIMER_TOPIC: DELAY, HALF_TOPIC: TRANSACTION}
_DELAYS: Final = (properties.DELAY, *TIMERS)
_asks_for: Final = re.compile(
    rf"(?:\A|\x02)(?:({properties.SHARDING_KEY})|{'|'.join(_DELAYS)})\x01".encode()
).search


def waiting_type(topic: str) -> str:
    """The kind of what is stored in a topic, if the topic says it."""
    return _BY_TOPIC.get(topic, NORMAL)


def message_type(put: Put) -> str:
    """The kind of a message, by its topic, its flags and what it asks for."""
    found = _BY_TOPIC.get(put.topic)
    if found is not None:
        return found
    if transaction_of(put.sys_flag) in (Transaction.PREPARED, Transaction.COMMITTED):
        return TRANSACTION
    asked = _asks_for(put.properties)
    if asked is None:
        return NORMAL
    return FIFO if asked[1] else DELAY


def letter_of(put: Put) -> tuple[str, str]:
    """The group of a dead letter, and the topic that it came from, if it says so."""
    said = properties.decode_bytes(put.properties)
    return put.topic.removeprefix(DLQ_PREFIX), said.get(properties.RETRY_TOPIC, "")
