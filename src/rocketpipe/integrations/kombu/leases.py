"""Who consumes from queues that are to be deleted with their last consumer.

Each consumer's process writes down that it has one, with the time, and again every minute; the last
one to leave deletes the queue. Where all were killed, the next process that comes to such a queue,
whichever it is, deletes those whose consumers are neither members of the group nor heard of.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Container
from math import inf
from typing import Final

from rocketpipe import Admin, RocketPipeError
from rocketpipe.integrations.kombu.names import Names

log = logging.getLogger(__name__)

EVERY_S: Final = 60
LOOK_S: Final = 10
#: Who was not heard of for so long, and is no member, is gone.
GONE_S: Final = 300
#: No client's id.
NOBODY: Final = ""


class Leases:
    """The consumers of one process from queues of this kind; on the loop."""

    def __init__(
        self,
        admin: Admin,
        names: Names,
        client_id: str,
        delete: Callable[[str], Awaitable[None]],
    ) -> None:
        self._admin = admin
        self._group = names.group
        self._namespace = names.lease_namespace
        self._client_id = client_id
        self._delete = delete
        #: How many consumers this process has.
        self._taken: Counter[str] = Counter()
        #: When it was seen last that a NameServer had lost what was said.
        self._lost_s = -inf

    async def take(self, queue: str) -> None:
        """Note that this process consumes from a queue; look after those of others."""
        self._taken[queue] += 1
        try:
            await self._write(queue)
            await self._sweep()
        except RocketPipeError as error:
            log.warning("queue %r may stay after its last consumer: %s", queue, error)

    async def leave(self, queue: str) -> None:
        """Note that it does no longer; with the last one the queue goes."""
        self._taken[queue] -= 1
        if self._taken[queue] > 0:
            return
        del self._taken[queue]
        servers, key = self._admin.name_servers, self._key(queue)
        found = await servers.values(self._namespace)
        if found.pop(key, None) is None or time.monotonic() - self._lost_s < 2 * LOOK_S:
            # What was said is lost, or was a moment ago, that of others as well. They say it
            # again; if there are none, whoever sweeps finds a lease of nobody's.
            await self._write(queue, NOBODY)
            return
        await servers.delete(self._namespace, key)
        if all(json.loads(value)["queue"] != queue for value in found.values()):
            await self._delete(queue)

    async def run(self) -> None:
        """Say again what is consumed from, until cancelled; soon, if that was lost."""
        said_s = time.monotonic()
        while True:
            await asyncio.sleep(min(LOOK_S, EVERY_S))
            try:
                found: Container[str] = ()
                if is_due := time.monotonic() - said_s > EVERY_S:
                    said_s = time.monotonic()
                elif self._taken:
                    found = await self._admin.name_servers.values(self._namespace)
                for queue in list(self._taken):
                    if self._key(queue) not in found:
                        self._lost_s = self._lost_s if is_due else time.monotonic()
                        await self._write(queue)
            except RocketPipeError as error:
                log.debug("not said again what is consumed from reason=%s", error)

    async def _write(self, queue: str, client_id: str | None = None) -> None:
        client = self._client_id if client_id is None else client_id
        value = {"queue": queue, "client": client, "said_s": int(time.time())}
        servers = self._admin.name_servers
        await servers.put(self._namespace, self._key(queue), json.dumps(value))

    async def _sweep(self) -> None:
        found = await self._admin.name_servers.values(self._namespace)
        members = {each.client_id for each in await self._admin.groups.members(self._group)}
        gone: defaultdict[str, list[str]] = defaultdict(list)
        alive: set[str] = set()
        for key, value in found.items():
            lease = json.loads(value)
            if lease["client"] in members or time.time() - lease["said_s"] < GONE_S:
                alive.add(lease["queue"])
            else:
                gone[lease["queue"]].append(key)
        for queue, keys in gone.items():
            if queue not in alive:
                log.info("queue without consumers deleted queue=%s", queue)
                await self._delete(queue)
            for key in keys:
                await self._admin.name_servers.delete(self._namespace, key)

    def _key(self, queue: str) -> str:
        return hashlib.sha256(f"{self._client_id}\n{queue}".encode()).hexdigest()[:40]
