"""RocketMQ's quick start, the producer: sends `Hello RocketMQ` to TopicTest, with TagA.

rocketpipe serve --data data &
python examples/quick_start_producer.py --count 1000
"""

from __future__ import annotations

import argparse
import asyncio
import os

from rocketpipe import Producer

NAME_SERVERS = os.environ.get("ROCKETPIPE_NAMESRV", "127.0.0.1:9876")


async def main(count: int) -> None:
    async with Producer(NAME_SERVERS, group="please_rename_unique_group_name") as producer:
        for number in range(count):
            body = f"Hello RocketMQ {number}".encode()
            sent = await producer.send("TopicTest", body, tags="TagA")
            print(sent.message_id, sent.queue.broker_name, sent.queue.queue_id, sent.queue_offset)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Send messages to TopicTest.")
    parser.add_argument("--count", type=int, default=1000, help="so many (1000)")
    asyncio.run(main(parser.parse_args().count))
