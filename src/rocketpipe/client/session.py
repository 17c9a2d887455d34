"""One client: id, connections, routes and heartbeats, shared by its producers and consumers.

Nothing runs and nothing is opened before the first ``async with``. A session may be entered more
than once, by those who share it, and lasts until the last of them leaves.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from rocketpipe.auth.secret import Secret
from rocketpipe.background import running
from rocketpipe.client.callbacks import CallbackHandlers
from rocketpipe.client.credentials import credentials_of
from rocketpipe.client.heartbeat import Heartbeats, heartbeat_data
from rocketpipe.client.identity import Identity
from rocketpipe.client.leader_calls import LeaderCalls
from rocketpipe.client.lifetime import Lifetime
from rocketpipe.client.members import Member
from rocketpipe.client.name_servers import NameServerClient, NameServers
from rocketpipe.client.observers import Observer, observers_of
from rocketpipe.client.routes import RouteCache
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import (
    GroupTaken,
    NoRoute,
    ProcessForked,
    RocketPipeError,
    SessionClosed,
    WrongThread,
)
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import LEADER_ID, MessageQueue, TopicRoute
from rocketpipe.protocol.requests.clients import HeartbeatData
from rocketpipe.protocol.requests.offsets import GetMaxOffset, GetMinOffset
from rocketpipe.remoting.caller import CALL_TIMEOUT_MS, Caller
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.tls_settings import TlsSettings

log = logging.getLogger(__name__)

FIRST_ROUTES_MS: Final = 10
ROUTES_EVERY_MS: Final = 30_000
FIRST_BEAT_MS: Final = 1000
BEAT_EVERY_MS: Final = 30_000
#: As RocketMQ's clients and servers do.
IDLE_MS: Final = 120_000
ROUTES_AT_ONCE: Final = 32

_unanswered = LogBudget()


class Session(Lifetime):
    """What producers and consumers of one client id share: ``async with Session("a:9876")``."""

    def __init__(
        self,
        name_servers: str,
        *,
        clock: Clock | None = None,
        chance: random.Random | None = None,
        instance: str | None = None,
        unit: str | None = None,
        timeout_ms: int = CALL_TIMEOUT_MS,
        tls: bool | TlsSettings | None = None,
        access_key: str | None = None,
        secret_key: str | Secret | None = None,
        secret_key_file: str | Path | None = None,
        anonymous: bool = False,
        said: tuple[tuple[str, str], ...] = (),
        observers: Iterable[Observer] = (),
    ) -> None:
        """Prepare a client of these NameServers; nothing is asked yet.

        ``instance`` takes the place of process and time in the client id, ``unit`` follows them.
        ``timeout_ms`` is for routes, heartbeats and questions about queues. ``tls`` says whether
        all connections are encrypted, and whom to trust; without it the environment says so
        (``ROCKETPIPE_TLS``, ``ROCKETPIPE_CA_FILE`` …).

        ``access_key`` and a secret, given or in the first line of a file, sign all requests; what
        is left out is asked of ``ROCKETPIPE_ACCESS_KEY``, ``ROCKETPIPE_SECRET_KEY`` and
        ``ROCKETPIPE_SECRET_KEY_FILE``. One that is ``anonymous`` signs nothing, whatever the
        environment says. ``said`` are header fields that go with all that is signed: a console's,
        of where its person is. ``observers`` are told of all that its clients send and handle.

        Raises:
            ValueError: If ``name_servers`` is no list such as ``a:9876;b:9876``, or there is no
                time to wait.
            InvalidName: If ``instance`` or ``unit`` cannot be part of a client id.
            ConfigError: If the environment says of TLS what has no sense, or a name has no secret.
        """
        if timeout_ms < 1:
            raise ValueError(f"timeout_ms is 1 or more, not {timeout_ms}")
        self.name_servers = NameServers.parse(name_servers)
        self.clock = clock or SystemClock()
        self.chance = chance or random.Random()  # noqa: S311 - it spreads load, it guards nothing
        self.timeout_ms = timeout_ms
        self._instance, self._unit = instance, unit
        self._identity = Identity.of_this_process(instance, unit)
        self.keys: UniqueKeys = self._identity.unique_keys()
        self._members: list[Member] = []
        self._observers = observers_of(observers)
        #: Who it is towards servers that ask for it.
        self.credentials = (
            None if anonymous else credentials_of(access_key, secret_key, secret_key_file)
        )
        if said and self.credentials is not None:
            self.credentials = replace(self.credentials, said=said)
        self.caller = Caller(
            Router(self._callbacks()).answer,
            on_connected=self._on_connected,
            tls=TlsSettings.of(tls),
            sign=self.credentials.sign if self.credentials is not None else None,
        )
        self.directory = NameServerClient(
            self.caller, self.name_servers, chance=self.chance, timeout_ms=timeout_ms
        )
        self.routes = RouteCache(
            self.directory, clock=self.clock, on_changed=self._on_routes_changed
        )
        self.leaders = LeaderCalls(self.caller, self.routes, self.clock, self.leader_of)
        self._heartbeats = self._new_heartbeats()
        self._wake = asyncio.Event()
        self._users = 0
        #: Where it is open; 0 while it is not.
        self._thread_id = 0
        self._gate = asyncio.Lock()
        self._running = AsyncExitStack()

    @classmethod
    def of(
        cls,
        name_servers: str | Session,
        *,
        clock: Clock | None = None,
        instance: str | None = None,
        tls: bool | TlsSettings | None = None,
        access_key: str | None = None,
        secret_key: Secret | None = None,
    ) -> Session:
        """The session to share, or a new one of these NameServers.

        Raises:
            ValueError: If ``name_servers`` is no list such as ``a:9876;b:9876``.
        """
        if isinstance(name_servers, Session):
            return name_servers
        return cls(
            name_servers,
            clock=clock,
            instance=instance,
            tls=tls,
            access_key=access_key,
            secret_key=secret_key,
        )

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Those who are told of what its clients do."""
        return self._observers

    @property
    def client_id(self) -> str:
        """What brokers call this client."""
        return self._identity.client_id

    @property
    def instance(self) -> str | None:
        """The name that was given to this client among those of its machine, if one was."""
        return self._instance

    @property
    def is_open(self) -> bool:
        """Whether it is inside its ``async with``."""
        return self._users > 0

    @property
    def is_of_parent(self) -> bool:
        """Whether it was opened before a fork, of which this process is the child.

        Whoever uses it closes nothing then: the connections are the parent's, and so is all that
        would have to end for this.
        """
        return self._users > 0 and os.getpid() != self._identity.process_id

    async def __aenter__(self) -> Self:
        async with self._gate:
            if self._users:
                self.check_open()
            else:
                await self._open()
            self._users += 1
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self.is_of_parent:
            return  # a forked child would take the parent's connections from its loop
        async with self._gate:
            self._users -= 1
            if not self._users:
                await self._close()

    def check_open(self) -> None:
        """Say clearly that the session cannot be used here and now, if so.

        Raises:
            SessionClosed: If it was not entered yet, or left already.
            ProcessForked: If it was entered in another process.
            WrongThread: If it was entered in another thread.
        """
        if not self._users:
            raise SessionClosed("the session")
        if self.is_of_parent:
            raise ProcessForked(self._identity.process_id, os.getpid())
        if threading.get_ident() != self._thread_id:
            raise WrongThread

    # Members

    def join(self, member: Member) -> None:
        """Have brokers told of a member, and routes of its topics kept fresh; see ``beat``.

        Raises:
            GroupTaken: If another member consumes for one of its groups.
            SessionClosed: If the session is not open.
        """
        self.check_open()
        taken = {consumer.group_name for each in self._members for consumer in each.consumers()}
        for consumer in member.consumers():
            if consumer.group_name in taken:
                raise GroupTaken(consumer.group_name, self.client_id)
        self._members.append(member)

    async def leave(self, member: Member) -> None:
        """Take a member out: connected brokers are told before this returns."""
        if member not in self._members:
            return
        self._members.remove(member)
        left = self._heartbeat_data()
        produced = {producer.group_name for producer in left.producers}
        await self._heartbeats.unregister(
            set(member.producer_groups()) - produced,
            {consumer.group_name for consumer in member.consumers()},
        )

    async def beat(self) -> None:
        """Tell every broker of the known routes at once what the members do now.

        A broker that is out of reach is told when it is back.
        """
        self.check_open()
        await self._heartbeats.beat()

    # Addresses

    def leader_of(self, queue: MessageQueue, route: TopicRoute | None = None) -> str:
        """The address of the broker that takes writes for a queue.

        Without a route, the one that is remembered counts.

        Raises:
            NoRoute: If the route names no leader for the queue's broker, or is not known.
        """
        address = self.addresses_of(queue, route).get(LEADER_ID)
        if address is None:
            raise self._no_route(queue, f"broker {queue.broker_name!r} has no leader now")
        return address

    def reader_of(
        self,
        queue: MessageQueue,
        broker_id: int = LEADER_ID,
        *,
        route: TopicRoute | None = None,
        only: bool = False,
    ) -> str:
        """The address to read a queue from: of the broker with this id, or else of another.

        ``broker_id`` is what the last answer suggested. In place of a follower that is gone the
        next one is taken, and then any broker of the name, unless it is to be ``only`` that one.

        Raises:
            NoRoute: If the route names no such broker, or is not known.
        """
        addresses = self.addresses_of(queue, route)
        address = addresses.get(broker_id)
        if address is None and broker_id != LEADER_ID:
            address = addresses.get(broker_id + 1)
        if address is None and addresses and not only:
            address = addresses[min(addresses)]
        if address is None:
            wanted = f"{queue.broker_name!r} number {broker_id}" if only else queue.broker_name
            raise self._no_route(queue, f"broker {wanted} cannot be read now")
        return address

    async def ends_of(
        self, queue: MessageQueue, address: str | None = None
    ) -> tuple[QueueOffset, QueueOffset]:
        """The offsets of a queue's oldest message, and of the one that will come next.

        Raises:
            NoRoute: If no address is given, and nobody has the queue.
            ConnectionLost: If the broker is out of reach.
            RequestRejected: If it has no such queue.
        """
        topic, queue_id, name = queue.topic, queue.queue_id, queue.broker_name
        least = GetMinOffset(topic=topic, queue_id=queue_id, broker_name=name)
        greatest = GetMaxOffset(topic=topic, queue_id=queue_id, broker_name=name)
        if address is None:
            first, end = await asyncio.gather(
                self.leaders.ask_anybody(queue, least, self.timeout_ms),
                self.leaders.ask_anybody(queue, greatest, self.timeout_ms),
            )
        else:
            first, end = await asyncio.gather(
                self.caller.call(address, least, self.timeout_ms),
                self.caller.call(address, greatest, self.timeout_ms),
            )
        return first.offset, end.offset

    def addresses_of(
        self, queue: MessageQueue, route: TopicRoute | None = None
    ) -> Mapping[int, str]:
        """The brokers that hold a queue, by their ids; without a route, as is remembered."""
        if route is None:
            route = self.routes.remembered(queue.topic)
        broker = route.broker(queue.broker_name) if route else None
        return broker.addresses if broker else {}

    def _no_route(self, queue: MessageQueue, hint: str) -> NoRoute:
        return NoRoute(queue.topic, str(self.name_servers), hint)

    def _callbacks(self) -> object:
        """Who answers what brokers ask of this client."""
        return CallbackHandlers(lambda: tuple(self._members))

    # What runs while the session is open

    async def _open(self) -> None:
        if self._identity.process_id != os.getpid():
            # Prepared before a fork: each process is a client of its own.
            self._identity = Identity.of_this_process(self._instance, self._unit)
            self.keys = self._identity.unique_keys()
        self._thread_id = threading.get_ident()
        self._heartbeats = self._new_heartbeats()
        self._wake = asyncio.Event()
        self._running = AsyncExitStack()
        await self._running.enter_async_context(self.caller)
        self._running.push_async_callback(self.routes.close)
        for work, name in ((self._keep_routes(), "routes"), (self._keep_beating(), "heartbeats")):
            await self._running.enter_async_context(running(work, f"{name} of {self.client_id}"))

    async def _close(self) -> None:
        try:
            for member in tuple(self._members):
                await self.leave(member)
        finally:
            self._members.clear()
            self._thread_id = 0
            await self._running.aclose()

    async def _keep_routes(self) -> None:
        await self.clock.sleep(FIRST_ROUTES_MS)
        while True:
            try:
                await self._refresh_routes()
            except Exception:
                log.exception("routes not refreshed client=%s", self.client_id)
            await self.clock.sleep(ROUTES_EVERY_MS)

    async def _refresh_routes(self) -> None:
        topics = sorted({topic for member in self._members for topic in member.topics()})
        for at in range(0, len(topics), ROUTES_AT_ONCE):
            asked = topics[at : at + ROUTES_AT_ONCE]
            results = await asyncio.gather(
                *(self.routes.refresh(topic) for topic in asked), return_exceptions=True
            )
            for topic, result in zip(asked, results, strict=True):
                if isinstance(result, BaseException) and not isinstance(result, RocketPipeError):
                    raise result
                if isinstance(result, RocketPipeError) and _unanswered.allows(result):
                    log.warning(
                        "no route yet topic=%s reason=%s%s",
                        topic,
                        result,
                        _unanswered.suppressed(),
                    )

    async def _keep_beating(self) -> None:
        due_ms = self.clock.monotonic_ms() + FIRST_BEAT_MS
        while True:
            is_due = await self._is_due(due_ms)
            try:
                if is_due:
                    self.caller.close_idle(self.clock.monotonic_ms(), IDLE_MS)
                    due_ms = self.clock.monotonic_ms() + BEAT_EVERY_MS
                    await self._heartbeats.beat()
                else:
                    await self._heartbeats.beat_new()
            except Exception:
                log.exception("heartbeats not sent client=%s", self.client_id)

    async def _is_due(self, due_ms: int) -> bool:
        """Wait until then, or for a broker that was connected anew; False if that came first."""
        sleeping = asyncio.ensure_future(
            self.clock.sleep(max(0, due_ms - self.clock.monotonic_ms()))
        )
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
            if sleeping.done():
                return True
            self._wake.clear()
            return False
        finally:
            sleeping.cancel()
            waking.cancel()

    def _new_heartbeats(self) -> Heartbeats:
        return Heartbeats(
            self.caller, self._heartbeat_data, self.routes.brokers, timeout_ms=self.timeout_ms
        )

    def _heartbeat_data(self) -> HeartbeatData:
        return heartbeat_data(self.client_id, self._members)

    def _on_connected(self, address: str) -> None:
        if address not in self.name_servers.addresses:
            self._heartbeats.on_connected(address)
            self._wake.set()

    def _on_routes_changed(self, topic: str) -> None:
        for member in tuple(self._members):
            try:
                member.on_routes_changed(topic)
            except Exception:
                log.exception("a member failed at a new route topic=%s", topic)
