"""Messages of several queues in the order of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe.cli.nouns import tailing
from rocketpipe.cli.nouns.tailing import Merged
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.codec import encode_record
from rocketpipe.testing.servers import Servers

HOST = Host.parse("127.0.0.1:10911")


def queue(number: int) -> MessageQueue:
    return MessageQueue(topic="t", broker_name="a", queue_id=number)


def message(number: int, offset: int, stored_ms: int) -> ReceivedMessage:
    record = encode_record(
        StoredMessage(
            topic="t",
            body=b"x",
            raw_properties=b"",
            queue_id=number,
            queue_offset=QueueOffset(offset),
            log_offset=LogOffset(stored_ms),
            born_ms=0,
            born_host=HOST,
            stored_ms=stored_ms,
            store_host=HOST,
        )
    )
    return ReceivedMessage(record, queue(number))


class Batches:
    """Gives batches one after the other, but none of a queue that is paused."""

    def __init__(self, *batches: list[ReceivedMessage]) -> None:
        self._batches = list(batches)
        self._at: dict[MessageQueue, int] = {}
        self.paused: set[MessageQueue] = set()
        self.was_paused = False

    async def poll(self, timeout_ms: int) -> list[ReceivedMessage]:
        for batch in self._batches:
            if batch[0].queue not in self.paused:
                self._batches.remove(batch)
                self._at[batch[-1].queue] = batch[-1].queue_offset + 1
                return batch
        return []

    def position(self, queue: MessageQueue) -> QueueOffset:
        return QueueOffset(self._at.get(queue, 0))

    def pause(self, *queues: MessageQueue) -> None:
        self.paused.update(queues)
        self.was_paused = True

    def resume(self, *queues: MessageQueue) -> None:
        self.paused.difference_update(queues)


async def test_queues_are_merged_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailing, "_AHEAD", 2)
    batches = Batches(
        [message(0, 0, 10), message(0, 1, 40)],
        [message(0, 2, 50)],
        [message(1, 0, 20), message(1, 1, 30), message(1, 2, 60)],
        [message(0, 3, 55)],
        [message(1, 3, 52)],
    )
    ends = {queue(0): QueueOffset(3), queue(1): QueueOffset(2), queue(2): QueueOffset(0)}
    merged = Merged(batches, ends)
    assert [each.stored_ms async for each in merged.stored()] == [10, 20, 30, 40, 50]
    assert batches.was_paused
    assert not batches.paused
    assert [each.stored_ms for each in await merged.arrived()] == [52, 55, 60]
    assert await merged.arrived() == []


@pytest.mark.scenario
def test_a_tail_is_in_order_and_leaves_no_trace(
    servers: Servers, command: Callable[..., str], answer: Callable[..., Any]
) -> None:
    command("topic", "create", "mixed", "-q", "4")
    sent = [str(number) for number in range(8)]
    for body in sent:
        command("message", "send", "mixed", body, "--order-by", body)
    tailed = answer("message", "tail", "mixed", "--from", "earliest")
    assert [each["body"] for each in tailed] == sent
    assert len({each["queue"] for each in tailed}) > 1
    places = answer("offsets", "show", "TOOLS_CONSUMER", "mixed")
    assert {each["committed"] for each in places} == {None}
