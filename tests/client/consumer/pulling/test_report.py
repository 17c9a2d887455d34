"""What a pull consumer tells of itself, from its own parts."""

from __future__ import annotations

from tests.client.consumer.support.records import messages, queue

from rocketpipe.client.consumer.handling.handlers import subscription_to
from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadLimits
from rocketpipe.client.consumer.pulling.report import PullReport
from rocketpipe.client.session import Session
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.testing.clock import ManualClock


async def test_a_pull_consumer_tells_what_it_has_in_hand_and_is_done_with() -> None:
    buffer = FetchBuffer(ReadLimits())
    report = PullReport(Session("127.0.0.1:1", clock=ManualClock()), buffer)
    place = buffer.open(queue(0), QueueOffset(4))
    buffer.open(queue(1, topic="u"), QueueOffset(7))
    buffer.add(place, messages(4, 5, 6), QueueOffset(7))
    place.take(1)
    place.settle()
    wanted = subscription_to("t", tags="A")
    info = report.running_info([wanted], stacks=True)
    held = info.queues[queue(0)]
    assert (held.commit_offset, held.cached_msg_count) == (5, 2)
    assert (held.cached_msg_min_offset, held.cached_msg_max_offset) == (5, 6)
    assert info.queues[queue(1, topic="u")].cached_msg_count == 0
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert info.subscriptions == (wanted,)
    assert info.stacks
    assert report.places("t") == {queue(0): 5}
