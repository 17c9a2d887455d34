"""What a reply says, and what it is no reply to."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpipe.client.consumer.replies import reply_to
from rocketpipe.errors import MessageRefused, PropertiesError
from rocketpipe.model import properties
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.requests.sending import SendReply

ASKED = {"CORRELATION_ID": "id", "REPLY_TO_CLIENT": "client", "TTL": "3000", "CLUSTER": "c"}


def question(**changes: str | None) -> StoredMessage:
    host = Host.parse("10.0.0.1:5")
    return StoredMessage(
        topic="t",
        body=b"hm?",
        raw_properties=properties.encode_bytes({**ASKED, **changes}),
        queue_id=0,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        born_ms=1,
        born_host=host,
        stored_ms=1,
        store_host=host,
    )


def reply(asked: StoredMessage, body: bytes = b"yes", own: Any = None) -> SendReply:
    return reply_to(asked, body, own or {}, "g", "KEY", 7)


def test_a_reply_names_whom_it_is_for() -> None:
    made = reply(question(), own={"own": "1"})
    assert (made.topic, made.producer_group, made.body) == ("c_REPLY_TOPIC", "g", b"yes")
    assert properties.decode(made.properties) == {
        "own": "1",
        "WAIT": "true",
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "id",
        "REPLY_TO_CLIENT": "client",
        "TTL": "3000",
        "UNIQ_KEY": "KEY",
    }


@pytest.mark.parametrize("missing", sorted(ASKED))
def test_what_is_no_question_says_what_it_lacks(missing: str) -> None:
    with pytest.raises(MessageRefused, match=f"no {missing}; reply to what was sent by"):
        reply(question(**{missing: None}))


def test_an_empty_reply_and_a_reserved_property_are_refused() -> None:
    with pytest.raises(MessageRefused, match="empty body"):
        reply(question(), b"")
    with pytest.raises(PropertiesError, match="reserved"):
        reply(question(), own={"CORRELATION_ID": "another"})
