"""Which queue is bound to which exchange, for all processes: kept by the NameServers.

A key for each binding of a queue that lasts, and one for each exchange that queues of one reader
are bound to. Which queue of one reader that is only its own process needs to know.

NameServers may keep values no longer than they run, and do not talk to each other. So nothing that
was read is forgotten because it is not there any more: it is written again, by whichever process
sees that first. What was unbound is therefore not deleted but written down as such, with the time;
the later of two words counts. A day later that is deleted, when everybody has long read it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from rocketpipe import Admin, PartlyDone, RocketPipeError
from rocketpipe.errors import AccessDenied, CallTimeout, ConnectionLost

log = logging.getLogger(__name__)

#: How old what is known of an exchange that nothing is bound to may be.
UNBOUND_S: Final = 2.0
#: How often each NameServer is looked at for what it lacks, and how soon after the last look.
EVERY_S: Final = 10.0
AGAIN_S: Final = 0.5
#: How long it is kept that something was unbound.
GONE_MS: Final = 24 * 3600 * 1000


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


@dataclass(frozen=True, slots=True)
class Word:
    """What was said last of a binding, and when."""

    binding: Binding
    said_ms: int
    is_bound: bool

    @property
    def text(self) -> str:
        """As it is kept."""
        parts = {k: v for k, v in asdict(self.binding).items() if v is not None}
        gone = {} if self.is_bound else {"gone": True}
        return json.dumps({**parts, "said_ms": self.said_ms, **gone})

    @classmethod
    def of(cls, text: str) -> Word:
        """Read it.

        Raises:
            ValueError, TypeError: If it is something else.
        """
        parts = json.loads(text)
        said_ms, gone = int(parts.pop("said_ms", 0)), parts.pop("gone", False)
        return cls(Binding(**parts), said_ms, not gone)


class Bindings:
    """The table of one virtual host, as far as this process has ever read it; on the loop."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self._servers = admin.name_servers
        self._namespace = namespace
        self._words: dict[str, Word] = {}
        #: What this process may not write down, and has to itself.
        self._own: set[str] = set()
        self._read_s: float | None = None
        #: Whether a NameServer was seen that does not have everything.
        self._is_lacking = asyncio.Event()

    async def add(self, binding: Binding) -> None:
        """Write a binding down, unless it is."""
        await self._read(if_unread=binding.key in self._bound())
        if self._bound().get(binding.key) != binding:
            await self._say(binding, is_bound=True)

    async def remove(self, binding: Binding) -> None:
        """Forget a binding, everywhere."""
        await self._read()
        await self._say(binding, is_bound=False)

    async def remove_queue(self, queue: str) -> None:
        """Forget all that a queue is bound to."""
        await self._read()
        for binding in list(self._bound().values()):
            if binding.queue == queue:
                await self._say(binding, is_bound=False)

    async def of(self, exchange: str) -> list[Binding]:
        """What is bound to an exchange now.

        Of one that nothing was bound to a moment ago that is believed for another moment.
        """
        found = self._of(exchange)
        is_fresh = self._read_s is not None and time.monotonic() - self._read_s < UNBOUND_S
        is_bound = any(binding.queue is not None for binding in found)
        if is_bound or not is_fresh:
            await self._read(if_unread=is_bound)
        return self._of(exchange)

    async def run(self) -> None:
        """See that each NameServer has everything, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._is_lacking.wait()
            except TimeoutError:
                pass
            self._is_lacking.clear()
            if self._words:
                try:
                    await self._repair()
                except RocketPipeError as error:
                    log.debug("bindings not written again reason=%s", error)
            await asyncio.sleep(AGAIN_S)

    def _bound(self) -> dict[str, Binding]:
        return {key: word.binding for key, word in self._words.items() if word.is_bound}

    def _of(self, exchange: str) -> list[Binding]:
        return [each for each in self._bound().values() if each.exchange == exchange]

    # Writing

    async def _say(self, binding: Binding, *, is_bound: bool) -> None:
        key, last = binding.key, self._words.get(binding.key)
        if key in self._own and not is_bound:
            self._own.discard(key)
            del self._words[key]
            return
        # Later than what it takes the place of, whatever the clock of who said that.
        now_ms = int(time.time() * 1000)
        word = Word(binding, max(now_ms, last.said_ms + 1 if last else 0), is_bound)
        try:
            await self._servers.put(self._namespace, key, word.text)
        except PartlyDone as error:
            if error.done:
                log.debug("some NameServers are told later: %s", error)
                self._is_lacking.set()
            elif is_bound and all(isinstance(each, AccessDenied) for each in error.failed.values()):
                self._keep(binding, error)
            else:
                raise
        except AccessDenied as error:
            if not is_bound:
                raise
            self._keep(binding, error)
        self._words[key] = word

    def _keep(self, binding: Binding, reason: RocketPipeError) -> None:
        self._own.add(binding.key)
        if binding.queue is not None:
            log.warning(
                "other processes do not see that queue %r is bound to exchange %r: %s",
                binding.queue,
                binding.exchange,
                reason,
            )

    # Reading

    async def _read(self, *, if_unread: bool = False) -> None:
        """Learn what others have said, of one NameServer; the first time, of each.

        Raises:
            ConnectionLost: If none answers, unless ``if_unread``: then what is known is enough.
        """
        if self._read_s is None and await self._read_each():
            self._read_s = time.monotonic()
            return
        try:
            values = await self._servers.values(self._namespace)
        except AccessDenied as error:
            log.debug("bindings of other processes cannot be read: %s", error)
        except (ConnectionLost, CallTimeout) as error:
            if not if_unread:
                raise
            log.debug("bindings not read reason=%s", error)
            return
        else:
            if self._lacks(self._learn(values)):
                self._is_lacking.set()
        self._read_s = time.monotonic()

    async def _read_each(self) -> dict[str, dict[str, Word]]:
        """Learn what NameServers have, of all that answer; gives it by their addresses."""
        found: dict[str, dict[str, Word]] = {}
        for server in await self._servers.addresses():
            try:
                values = await self._servers.values(self._namespace, server=server)
            except RocketPipeError as error:
                log.debug("bindings not read server=%s reason=%s", server, error)
            else:
                found[server] = self._learn(values)
        if any(self._lacks(words) for words in found.values()):
            self._is_lacking.set()
        return found

    def _learn(self, values: Mapping[str, str]) -> dict[str, Word]:
        words: dict[str, Word] = {}
        for key, text in values.items():
            try:
                words[key] = word = Word.of(text)
            except (ValueError, TypeError) as error:
                log.warning("no binding key=%s reason=%s", key, error)
                continue
            last = self._words.get(key)
            if last is None or last.said_ms < word.said_ms:
                self._words[key] = word
                self._own.discard(key)
        return words

    def _lacks(self, words: Mapping[str, Word]) -> list[Word]:
        """What is known, and is not in what a NameServer has, or older there."""
        return [
            word
            for key, word in self._words.items()
            if key not in self._own and (key not in words or words[key].said_ms < word.said_ms)
        ]

    async def _repair(self) -> None:
        for server, words in (await self._read_each()).items():
            lacking = self._lacks(words)
            for word in lacking:
                await self._servers.put(self._namespace, word.binding.key, word.text, server=server)
            if lacking:
                log.info("bindings written again server=%s of=%d", server, len(lacking))
        least_ms = time.time() * 1000 - GONE_MS
        for key, word in list(self._words.items()):
            if not word.is_bound and word.said_ms < least_ms:
                del self._words[key]
                await self._servers.delete(self._namespace, key)
