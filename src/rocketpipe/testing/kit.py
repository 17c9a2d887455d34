"""A NameServer and a broker inside the test process, with a clock and faults in the test's hand.

    with kit(tmp_path) as rocketpipe:
        with rocketpipe.blocking.producer() as producer:
            producer.send("orders", b"one", delay_ms=60_000)
        rocketpipe.clock.advance("1m")

The servers run on a loop and a thread of their own, so that tests may block, or have loops of
their own. The broker and the kit's clients go by the kit's clock. The NameServer goes by the
machine's, and the broker is patient with silent clients: or a leap in time would make strangers of
clients whose own clock does not leap.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine, Iterator
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from rocketpipe import blocking
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.consumer.push import PushConsumer
from rocketpipe.client.consumer.simple import SimpleConsumer
from rocketpipe.client.producer.producer import Producer
from rocketpipe.client.session import Session
from rocketpipe.errors import StoreError
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing.kit_clock import KitClock, off_loop
from rocketpipe.testing.kit_faults import Faults, KitDisk, Outlet
from rocketpipe.testing.servers import ServersFailed

T = TypeVar("T")

#: Longer than any leap of a test.
_FOR_YEARS_S: Final = 10 * 365 * 24 * 3600
#: How long the servers may take to start, to stop, and to start again.
_PATIENCE_S: Final = 60
#: Enough for the longest message; a broker that comes back reads through what is left of it.
_SEGMENT_BYTES: Final = 6 << 20
_FROM_THE_START: Final = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class BlockingClients:
    """Clients of the kit's servers for tests without ``async``; use them inside ``with``.

    They take what those of ``rocketpipe.blocking`` take, know the servers and the kit's clock, and
    groups that are new begin with the first message.
    """

    def __init__(self, name_servers: str, clock: KitClock) -> None:
        self._name_servers = name_servers
        self._clock = clock

    def producer(self, **settings: Any) -> blocking.Producer:
        """A producer."""
        return blocking.Producer(self._name_servers, **{"clock": self._clock, **settings})

    def push_consumer(self, *, group: str, **settings: Any) -> blocking.PushConsumer:
        """A consumer that is handed messages."""
        return blocking.PushConsumer(
            self._name_servers,
            group=group,
            **{"clock": self._clock, "start": _FROM_THE_START, **settings},
        )

    def pull_consumer(self, *, group: str, **settings: Any) -> blocking.PullConsumer:
        """A consumer that asks for messages."""
        return blocking.PullConsumer(
            self._name_servers,
            group=group,
            **{"clock": self._clock, "start": _FROM_THE_START, **settings},
        )

    def simple_consumer(self, *, group: str, **settings: Any) -> blocking.SimpleConsumer:
        """A consumer that receives messages for a time, and acknowledges each."""
        return blocking.SimpleConsumer(
            self._name_servers, group=group, **{"clock": self._clock, **settings}
        )

    def admin(self) -> blocking.Admin:
        """What operators call."""
        return blocking.Admin(blocking.Session(self._name_servers, clock=self._clock))


class Kit:
    """Servers of one test; made by ``kit``, or by the pytest fixture ``rocketpipe``."""

    def __init__(self, servers: _Servers, faults: Faults) -> None:
        self._servers = servers
        #: The time of the broker and of the kit's clients.
        self.clock: Final = servers.clock
        #: What is to go wrong.
        self.faults: Final = faults
        #: Clients for tests without ``async``.
        self.blocking: Final = BlockingClients(self.name_server, self.clock)

    @property
    def name_server(self) -> str:
        """Where clients begin: the address of the NameServer."""
        return self._servers.name_server

    @property
    def broker(self) -> str:
        """The address of the broker; it stays the same when that is started again."""
        return self._servers.broker

    @property
    def data(self) -> Path:
        """The broker's directory."""
        return self._servers.data

    def restart(self) -> Awaitable[None]:
        """Stop the broker in good order and start it again; in a coroutine, await it.

        Raises:
            ServersFailed: If it does not come back.
        """
        return off_loop(self._servers.restart)

    def kill(self) -> Awaitable[None]:
        """End the broker as ``kill -9`` would, and start it again; in a coroutine, await it.

        Nothing more is answered or written. What was acknowledged is there afterwards; what
        consumers said of their progress in the last seconds may not be, and comes again.

        Raises:
            ServersFailed: If it does not come back.
        """
        return off_loop(self._servers.kill)

    def drop_connections(self) -> Awaitable[None]:
        """End all connections to the broker, as a network would; in a coroutine, await it."""
        return off_loop(self._servers.drop_connections)

    # Clients for tests with async: they take what those of ``rocketpipe`` take

    def producer(self, **settings: Any) -> Producer:
        """A producer: ``async with rocketpipe.producer() as producer``."""
        return Producer(self.name_server, **{"clock": self.clock, **settings})

    def push_consumer(self, *, group: str, **settings: Any) -> PushConsumer:
        """A consumer that is handed messages; a new group begins with the first one."""
        return PushConsumer(
            self.name_server,
            group=group,
            **{"clock": self.clock, "start": _FROM_THE_START, **settings},
        )

    def pull_consumer(self, *, group: str, **settings: Any) -> PullConsumer:
        """A consumer that asks for messages; a new group begins with the first one."""
        return PullConsumer(
            self.name_server,
            group=group,
            **{"clock": self.clock, "start": _FROM_THE_START, **settings},
        )

    def simple_consumer(self, *, group: str, **settings: Any) -> SimpleConsumer:
        """A consumer that receives messages for a time, and acknowledges each."""
        return SimpleConsumer(self.name_server, group=group, **{"clock": self.clock, **settings})

    def admin(self) -> Admin:
        """What operators call."""
        return Admin(Session(self.name_server, clock=self.clock))


@contextmanager
def kit(data: Path, **settings: Any) -> Iterator[Kit]:
    """Run the servers inside the block, on free ports, with the broker's files in ``data``.

    ``settings`` are fields of the broker's ``BrokerConfig``, where the kit's do not suit a test.

    Raises:
        ServersFailed: If they do not start or stop.
    """
    faults = Faults()
    servers = _Servers(data, KitClock(), faults, settings)
    servers.start()
    try:
        yield Kit(servers, faults)
    finally:
        servers.stop()


class _Life:
    """One run of the broker."""

    def __init__(self, faults: Faults, data: Path, clock: KitClock) -> None:
        self.disk = KitDisk(faults, data)
        self.outlet = Outlet(faults, clock.stir)
        self.ending = asyncio.Event()
        self.started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.core: Core | None = None
        self.task: asyncio.Task[None] | None = None

    def watch(self, core: Core) -> None:
        self.core = core


class _Servers:
    """The loop, its thread, and the lives of the broker on it."""

    def __init__(
        self, data: Path, clock: KitClock, faults: Faults, settings: dict[str, Any]
    ) -> None:
        self.data = data
        self.clock = clock
        self.name_server = ""
        self.broker = ""
        self._faults = faults
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="rocketpipe-kit", daemon=True)
        self._stopping = asyncio.Event()
        self._up = threading.Event()
        self._failure: BaseException | None = None
        self._life: _Life | None = None

    # On the test's threads

    def start(self) -> None:
        self._thread.start()
        if not self._up.wait(_PATIENCE_S):
            raise ServersFailed(f"the servers did not start within {_PATIENCE_S} s")
        if self._failure is not None:
            self._thread.join(_PATIENCE_S)
            raise ServersFailed(f"the servers did not start: {self._failure}") from self._failure

    def stop(self) -> None:
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            raise ServersFailed(f"the servers did not stop within {_PATIENCE_S} s")
        if self._failure is not None:
            raise ServersFailed(f"the servers failed: {self._failure}") from self._failure

    def restart(self) -> None:
        self._run(self._again(killed=False))

    def kill(self) -> None:
        self._run(self._again(killed=True))

    def drop_connections(self) -> None:
        async def drop() -> None:
            if self._life is not None:
                self._life.outlet.drop_connections()

        self._run(drop())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)
        except TookTooLong as error:
            raise ServersFailed(f"the broker did not come back within {_PATIENCE_S} s") from error
        except (StoreError, OSError) as error:
            raise ServersFailed(f"the broker did not come back: {error}") from error

    # On the servers' thread

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._until_stopped())
        except Exception as error:  # whatever it is, the test is told
            self._failure = error
        finally:
            self._up.set()

    async def _until_stopped(self) -> None:
        async with name_server(NamesrvConfig(port=0)) as address:
            self.name_server = address
            await self._begin()
            self._up.set()
            await self._stopping.wait()
            await self._end()

    async def _begin(self) -> None:
        life = _Life(self._faults, self.data, self.clock)
        life.task = asyncio.create_task(self._live(life), name="broker of the test kit")
        await asyncio.wait((life.started, life.task), return_when=asyncio.FIRST_COMPLETED)
        if life.task.done():
            life.task.result()  # says why it did not start
        self.broker = life.started.result()
        self._life = life

    async def _live(self, life: _Life) -> None:
        async with broker(
            self._config(),
            clock=self.clock,
            watch=life.watch,
            around=life.outlet.around,
            disk=life.disk,
        ) as address:
            life.started.set_result(address)
            await life.ending.wait()

    async def _end(self, *, killed: bool = False) -> None:
        life, self._life = self._life, None
        if life is None:
            return
        assert life.task is not None
        if killed:
            assert life.core is not None
            life.outlet.cut()
            # Its parts come down one by one, and some would still write: the dead do not.
            life.core.store.health.fail("the broker was killed")
            life.core.store.abandon()
            life.disk.is_frozen = True
        life.ending.set()
        await asyncio.wait((life.task,))
        with suppress(*((StoreError,) if killed else ())):  # what it still wanted to write
            life.task.result()

    async def _again(self, *, killed: bool) -> None:
        await self._end(killed=killed)
        await self._begin()

    def _config(self) -> BrokerConfig:
        usual: dict[str, Any] = {
            "data": self.data,
            "name_servers": (self.name_server,),
            "port": int(self.broker.rpartition(":")[2] or 0),
            "store": StoreConfig.embedded(self.data, segment_bytes=_SEGMENT_BYTES),
            "client_expiry_ms": 1000 * _FOR_YEARS_S,
            "connection_idle_s": _FOR_YEARS_S,
        }
        return BrokerConfig(**{**usual, **self._settings})
