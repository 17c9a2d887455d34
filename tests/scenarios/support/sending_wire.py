"""One frame to a broker and one back, and what its queues show."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.guarded import signed

from rocketpipe.client.consumer.pull import pull_request
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.command import ONEWAY, Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.remoting.caller import Caller, split_address

WITHIN_S = 30


def sent(topic: str = "t", body: bytes = b"body", **changes: Any) -> SendMessage:
    """A send as producers make it."""
    fields: dict[str, Any] = {
        "producer_group": "p",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 5,
        "flag": 0,
        "properties": f"UNIQ_KEY\x01K-{body.hex()[:64]}\x02TAGS\x01A",
        "body": body,
    }
    return SendMessage(**{**fields, **changes})


async def exchange(address: str, question: Command | Request[Any]) -> Command | None:
    """Send one frame on a connection of its own; its answer, or None if it wants none."""
    command = question if isinstance(question, Command) else to_command(question, 1)
    reader, writer = await asyncio.open_connection(*split_address(address))
    wire = Connection()
    try:
        writer.write(encode_frame(signed(command)))
        if command.flag & ONEWAY:
            return None
        async with asyncio.timeout(WITHIN_S):
            while data := await reader.read(1 << 16):
                for answer in wire.receive(data):
                    return answer
    finally:
        writer.close()
        await writer.wait_closed()
    raise AssertionError("the broker closed the connection")


async def shown(caller: Caller, address: str, topic: str = "t", least: int = 0) -> list[RecordView]:
    """What queue 0 of a topic has, once it has at least so many."""
    queue = MessageQueue(topic=topic, broker_name="broker-a", queue_id=0)
    found: list[RecordView] = []
    async with asyncio.timeout(WITHIN_S):
        while True:
            at = QueueOffset(found[-1].queue_offset + 1 if found else 0)
            wait_ms = 1000 if len(found) < least else 0
            reply = await caller.call(address, pull_request("g", queue, at, "*", wait_ms))
            more = list(view_records(reply.messages))
            found += more
            if not more and len(found) >= least:
                return found


async def all_bodies(address: str, topic: str = "t", queues: int = 4) -> list[bytes]:
    """What the first queues of a topic have now, sorted."""
    return sorted(message.body for message in await all_messages(address, topic, queues))


async def all_messages(address: str, topic: str = "t", queues: int = 4) -> list[RecordView]:
    """What the first queues of a topic have now, one queue after the other."""
    found: list[RecordView] = []
    async with Caller() as caller:
        for queue_id in range(queues):
            queue = MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)
            at = QueueOffset(0)
            while True:
                reply = await caller.call(address, pull_request("g", queue, at, "*", 0))
                some = list(view_records(reply.messages))
                if not some:
                    break
                found += some
                at = QueueOffset(some[-1].queue_offset + 1)
    return found
