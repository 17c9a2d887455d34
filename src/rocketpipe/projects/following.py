"""A pipeline that runs again whenever its topics have grown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import count
from typing import Final

from rocketpipe.client.admin.admin import Admin
from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.session import SparkPlace
from rocketpipe.projects import topics
from rocketpipe.projects.asks import Ask
from rocketpipe.projects.errors import NotWritable, ServerFailed
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.records import Run
from rocketpipe.projects.running import Heard, Workshop, ignore, run_recorded, workshop

#: After Spark has died, it is started again after so long, and then after twice as long.
REST_S: Final = 5.0
LONGEST_REST_S: Final = 60.0

Say = Callable[[str], None]
Watch = Callable[[Run], None]


def follow(
    folder: Folder,
    place: SparkPlace,
    name_servers: str,
    *,
    every_s: float,
    watch: Watch,
    done: Watch,
    say: Say,
    heard: Heard = ignore,
) -> None:
    """Run the pipeline, and again whenever topics have grown, until somebody interrupts.

    A Spark that dies is started again, and a folder that cannot be written waited for, as on a disk
    that is full. ``done`` is told of each run that ended, and ``heard`` of each batch.

    Raises:
        PipelineError: If Spark does not start the first time.
    """
    fruitless = 0

    def ended(run: Run) -> None:
        nonlocal fruitless
        fruitless = 0
        done(run)

    for start in count():
        try:
            with workshop(folder, place, name_servers, watch, heard) as shop:
                _passes(shop, name_servers, every_s=every_s, done=ended, say=say)
        except BrokenPipeError:
            raise  # whoever was told has had enough
        except (ServerFailed, NotWritable, OSError) as error:
            if not start and "did not start" in str(error):
                raise
            say(f"{error}; starting again")
            time.sleep(min(REST_S * 2**fruitless, LONGEST_REST_S))
            fruitless += 1


def _passes(shop: Workshop, name_servers: str, *, every_s: float, done: Watch, say: Say) -> None:
    seen: topics.Ends = {}
    while True:
        run = run_recorded(shop, Ask())
        done(run)
        read = ends_read(run, seen)
        trouble: str | None = None
        while True:
            time.sleep(every_s)
            shop.check_alive()
            try:
                ends = asyncio.run(_ends(name_servers, run))
            except RocketPipeError as error:
                if str(error) != trouble:
                    trouble = str(error)
                    say(f"the cluster cannot be asked now: {trouble}")
                continue
            if run.state != "completed" or has_grown(read, ends):
                seen = ends
                break


def has_grown(read: dict[tuple[str, str, str], int], ends: topics.Ends) -> bool:
    """Whether there is anything that no flow has read so far.

    A queue that ends before what was read of it is another one, or has lost something: whoever
    reads it says so.
    """
    return any(
        end > max(read.get(queue, 0), least) or end < read.get(queue, 0)
        for queue, (least, end) in ends.items()
    )


def ends_read(run: Run, seen: topics.Ends) -> dict[tuple[str, str, str], int]:
    """Up to where all flows have read: of several that read a queue, the one that is behind.

    Spark tells nothing of what is read whole, as by views: that was ``seen`` before the run.
    """
    found: dict[tuple[str, str, str], int] = {}
    for flow in run.flows.values():
        for topic, brokers in flow.ends.items():
            for broker, queues in brokers.items():
                for queue, end in queues.items():
                    key = (topic, broker, queue)
                    found[key] = min(found.get(key, end), end)
    return {queue: end for queue, (_, end) in seen.items()} | found


async def _ends(name_servers: str, run: Run) -> topics.Ends:
    async with Admin(name_servers) as admin:
        return await topics.ends_of(admin, run.graph.source_topics())
