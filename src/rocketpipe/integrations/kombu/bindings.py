"""Which queue is bound to which exchange, for all processes: kept by the NameServers.

A key for each binding of a queue that lasts, and one for each exchange that queues of one reader
are bound to. Which queue of one reader that is only its own process needs to know.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from dataclasses import asdict, dataclass
from typing import Final

from rocketpipe import Admin
from rocketpipe.errors import AccessDenied

log = logging.getLogger(__name__)

#: How old what is known of an exchange that nothing is bound to may be.
UNBOUND_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Binding:
    """A queue that gets what is published to an exchange; no queue: some process has one."""

    exchange: str
    #: "direct", "topic" or "fanout".
    kind: str
    queue: str | None = None
    routing_key: str = ""

    @property
    def key(self) -> str:
        """What it is kept by: any two bindings differ in it."""
        parts = json.dumps([self.exchange, self.queue, self.routing_key])
        return hashlib.sha256(parts.encode("utf-8")).hexdigest()[:40]


class Bindings:
    """The table of one virtual host."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self._admin = admin
        self._namespace = namespace
        self._known: dict[str, Binding] = {}
        #: What this process may not write down, and has to itself.
        self._own: dict[str, Binding] = {}
        self._read_s: float | None = None

    async def add(self, binding: Binding) -> None:
        """Write a binding down, unless it is."""
        if binding.key in self._known or binding.key in self._own:
            return
        await self._read()
        if self._known.get(binding.key) == binding:
            return
        value = json.dumps({k: v for k, v in asdict(binding).items() if v is not None})
        try:
            await self._admin.name_servers.put(self._namespace, binding.key, value)
        except AccessDenied as error:
            self._own[binding.key] = binding
            if binding.queue is not None:
                log.warning(
                    "other processes do not see that queue %r is bound to exchange %r: %s",
                    binding.queue,
                    binding.exchange,
                    error,
                )
        else:
            self._known[binding.key] = binding

    async def remove(self, binding: Binding) -> None:
        """Forget a binding, everywhere."""
        self._known.pop(binding.key, None)
        if self._own.pop(binding.key, None) is None:
            await self._admin.name_servers.delete(self._namespace, binding.key)

    async def remove_queue(self, queue: str) -> None:
        """Forget all that a queue is bound to."""
        await self._read()
        for binding in [*self._known.values(), *self._own.values()]:
            if binding.queue == queue:
                await self.remove(binding)

    async def of(self, exchange: str) -> list[Binding]:
        """What is bound to an exchange now.

        Of one that nothing was bound to a moment ago that is believed for another moment.
        """
        found = self._of(exchange)
        is_fresh = self._read_s is not None and time.monotonic() - self._read_s < UNBOUND_S
        if any(binding.queue is not None for binding in found) or not is_fresh:
            await self._read()
            found = self._of(exchange)
        return found

    async def all(self) -> list[Binding]:
        """Every binding there is."""
        await self._read()
        return [*self._known.values(), *self._own.values()]

    def _of(self, exchange: str) -> list[Binding]:
        everything = (*self._known.values(), *self._own.values())
        return [binding for binding in everything if binding.exchange == exchange]

    async def _read(self) -> None:
        try:
            values = await self._admin.name_servers.values(self._namespace)
        except AccessDenied as error:
            log.debug("bindings of other processes cannot be read: %s", error)
            values = {}
        self._known = {key: Binding(**json.loads(value)) for key, value in values.items()}
        self._read_s = time.monotonic()
