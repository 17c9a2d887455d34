"""A trigger of ours in Airflow's Python, asked for events as triggerers before Airflow 3.3 ask.

    python airflow_watcher.py NAMESRV TOPIC SETTLE_MS

It prints each event's payload, and ends when its input does.
"""

import asyncio
import json
import sys

from rocketpipe.integrations import airflow


async def watch(name_servers: str, topic: str) -> None:
    trigger = airflow.RocketPipeMessageTrigger(
        name_servers=name_servers, topic=topic, invisible_ms=3000
    )
    path, arguments = trigger.serialize()
    assert path == f"{type(trigger).__module__}.{type(trigger).__name__}"
    async for event in type(trigger)(**arguments).run():
        sys.stdout.write(json.dumps(event.payload) + "\n")
        sys.stdout.flush()


async def main() -> None:
    airflow.SETTLE_MS = int(sys.argv[3])
    watching = asyncio.create_task(watch(sys.argv[1], sys.argv[2]))
    await asyncio.to_thread(sys.stdin.read)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


asyncio.run(main())
