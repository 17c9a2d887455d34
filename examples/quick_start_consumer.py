"""RocketMQ's quick start, the consumer: prints what comes to TopicTest until Ctrl-C.

rocketpipe serve --data data &
python examples/quick_start_consumer.py
"""

from __future__ import annotations

import argparse
import asyncio
import os

from rocketpipe import PushConsumer, ReceivedMessage

NAME_SERVERS = os.environ.get("ROCKETPIPE_NAMESRV", "127.0.0.1:9876")


async def main(count: int | None) -> None:
    consumer = PushConsumer(
        NAME_SERVERS,
        group="please_rename_unique_group_name_4",
        start="first",
    )
    seen: set[str] = set()  # a message may come twice: count each once

    @consumer.on("TopicTest")
    async def show(message: ReceivedMessage) -> None:
        print(message.queue.queue_id, message.queue_offset, message.tags, message.body.decode())
        seen.add(message.message_id)
        if count is not None and len(seen) >= count:
            consumer.stop()

    await consumer.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the messages of TopicTest.")
    parser.add_argument("--count", type=int, help="end after so many messages")
    asyncio.run(main(parser.parse_args().count))
