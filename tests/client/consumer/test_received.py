from __future__ import annotations

import pytest
from tests.client.consumer.support.sample_messages import QUEUE, RETRIES, again, message, stored

from rocketpipe.client.consumer.received import received
from rocketpipe.errors import RecordError
from rocketpipe.record.codec import encode_record


def test_an_answer_gives_its_messages_in_order_each_with_its_own_bytes() -> None:
    answer = b"".join(encode_record(stored(offset)) for offset in (5, 6, 9))
    found = list(received(answer, QUEUE))
    assert [one.queue_offset for one in found] == [5, 6, 9]
    assert [one.body for one in found] == [b"body 5", b"body 6", b"body 9"]
    assert all(one.queue == QUEUE for one in found)
    assert len(found[0].raw) == found[0].size < len(answer)


def test_a_torn_answer_gives_what_is_whole_and_then_says_so() -> None:
    answer = encode_record(stored(5)) + encode_record(stored(6))[:-1]
    found = received(answer, QUEUE)
    assert next(found).queue_offset == 5
    with pytest.raises(RecordError):
        next(found)


def test_a_message_that_comes_again_shows_the_topic_it_was_sent_to() -> None:
    retried = again(3, "orders", reconsume_times=2)
    assert retried.topic == "orders"
    assert retried.queue == RETRIES
    assert retried.reconsume_times == 2


def test_an_attempt_made_here_counts_as_one() -> None:
    one = message(1, reconsume_times=2)
    one.tried()
    assert one.reconsume_times == 3
    assert "broker-a:0:1" in repr(one)


def test_the_length_of_the_body_is_that_which_is_stored() -> None:
    assert message(1, body=b"x" * 77).body_bytes == 77
