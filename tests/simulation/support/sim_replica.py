"""One replica of the product on a simulated machine: its disk, its clock, its process.

All of it is the broker's own code, from `replicated` down: fast path, handlers, roles, store,
tables, both ends of the HA port. Simulated are the sockets, the disk, time, what threads would do,
and the clients: a request is handed to the broker as the bytes of a frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, cast

from tests.simulation.support.sim_loop import SimLoop, SimProcess
from tests.simulation.support.sim_net import SimNet

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.replication.leading.ha_port import HaPort
from rocketpipe.broker.roles.replica import Replica
from rocketpipe.broker.roles.replicated import replicated
from rocketpipe.broker.roles.switchboard import Switchboard
from rocketpipe.coordination.coordinator import GroupState
from rocketpipe.errors import ConnectionLost
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.coordinator import SimCoordinator, SimEnsemble
from rocketpipe.testing.simulation.disk import SimDisk

ROOT: Final = Path("/store")
HA_PORT: Final = 10912
PORT: Final = 10911
SEGMENT_BYTES: Final = 64 << 10
_START_MS: Final = 1_700_000_000_000


class SimClock:
    """A machine's clock: what it shows can be wrong, and be put right with a jump."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.wrong_ms = 0

    def now_ms(self) -> int:
        return _START_MS + self.monotonic_ms() + self.wrong_ms

    def monotonic_ms(self) -> int:
        return round(self._loop.time() * 1000)

    async def sleep(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)


class ProcessCoordinator(SimCoordinator):
    """A coordinator whose word comes through its process's loop, as that of kazoo's threads."""

    def __init__(
        self, ensemble: SimEnsemble, loop: SimLoop, process: SimProcess, lost_late_ms: int
    ) -> None:
        """So much later than it could know does it find out by itself that its session is over."""
        super().__init__(ensemble)
        self._lost_late_ms = lost_late_ms
        ensemble._coordinators.append(self)
        self._loop = loop
        self._process = process

    def watch(self, changed: Callable[[GroupState], None], lost: Callable[[], None]) -> None:
        call, context = self._loop.call_soon, self._process.context
        super().watch(
            lambda state: cast(None, call(changed, state, context=context)),
            lambda: cast(None, call(lost, context=context)),
        )

    async def state(self) -> GroupState:
        answer = getattr(self._ensemble, "answer", self._ensemble.state)
        return await self._call(lambda session: cast(GroupState, answer()))

    def beat(self, now_ms: int) -> None:
        if self._reachable or now_ms - self._contact_ms >= (
            self._ensemble.session_ms + self._lost_late_ms
        ):
            super().beat(now_ms)

    def die(self) -> None:
        super().die()
        if self in self._ensemble._coordinators:
            self._ensemble._coordinators.remove(self)


class _Line(asyncio.Transport):
    """A broker's end of the connection that all clients share; each answer goes to who asked."""

    def __init__(self, board: Switchboard) -> None:
        super().__init__()
        self._wire = Connection()
        self._asked: dict[int, Callable[[Command], None]] = {}
        self._opaques = count(1)
        self._peer = PeerConnection(board.answer, limits=ConnectionLimits(), lane=board)
        self._peer.connection_made(self)

    def ask(self, request: Request[Any], done: Callable[[Command], None]) -> None:
        """Hand a request to the broker, as bytes."""
        opaque = next(self._opaques)
        self._asked[opaque] = done
        self._peer.data_received(self._wire.send(to_command(request, opaque)))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        for reply in self._wire.receive(bytes(data)):
            self._asked.pop(reply.opaque)(reply)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.9", 50001) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """What is written is taken at once."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


class SimCaller(Caller):
    """Asks other brokers over the simulated network."""

    def __init__(self, machine: SimMachine) -> None:
        super().__init__()
        self._machine = machine

    async def call(self, address: str, request: Request[Any], timeout_ms: int = 3000) -> Any:
        host, _ = split_address(address)
        machine = self._machine
        asking = asyncio.ensure_future(machine.group.machine_at(host).asked(machine.host, request))
        done, _ = await asyncio.wait([asking], timeout=timeout_ms / 1000)
        if not done:
            asking.cancel()
            raise ConnectionLost(address, "no answer")
        answer = asking.result()
        if answer is None:
            raise ConnectionLost(address, "nobody is there")
        return read_reply(request, answer)


class Around:
    """What a machine knows of the rest: the group that it is in."""

    loop: SimLoop
    net: SimNet
    ensemble: SimEnsemble

    def machine_at(self, host: str) -> SimMachine:
        raise NotImplementedError

    def opened(self, machine: SimMachine, core: Core) -> None:
        """A store was opened, with what is built on it."""

    def ended(self, machine: SimMachine, error: BaseException) -> None:
        """A process has ended by itself."""


class SimMachine:
    """A machine that is number ``id_`` of its group; its disk outlives its processes."""

    def __init__(
        self, group: Around, id_: int, seed: int, *, role: BrokerRole | None, flush: FlushMode
    ) -> None:
        self.group = group
        self.id = id_
        self.host = f"10.0.0.{id_}"
        self.chance = Random(seed)
        self.disk = SimDisk(seed)
        self.clock = SimClock(group.loop)
        self.boots = 1
        #: How many processes it has had.
        self.lives = 0
        self.lost_late_ms = 0
        self.process: SimProcess | None = None
        self.replica: Replica | None = None
        self.core: Core | None = None
        self.coordinator: ProcessCoordinator | None = None
        self._line: _Line | None = None
        self._main: asyncio.Task[None] | None = None
        store = StoreConfig(
            root=ROOT,
            flush=flush,
            segment_bytes=SEGMENT_BYTES,
            queue_file_bytes=2_000,
            index_slots=8,
            index_entries=64,
            timer_log_bytes=4096,
            max_open_files=16,
        )
        self.replication = ReplicationConfig(
            role=role,
            zookeepers=("10.0.0.8:2181",),
            ha_port=HA_PORT,
            max_lag_ms=800,
            heartbeat_ms=1_000,
            silence_ms=3_000,
            slave_timeout_ms=2_000,
        )
        self.config = BrokerConfig(
            data=ROOT,
            name="broker-a",
            broker_id=id_,
            host=self.host,
            name_servers=(),
            port=PORT,
            store=store,
            replication=self.replication,
            default_topic_queues=2,
            delay_levels="1s",
            trace_topic=False,
            save_offsets_every_ms=60_000,
        )

    @property
    def alive(self) -> bool:
        return self.process is not None

    @property
    def paused(self) -> bool:
        return self.process is not None and self.process.paused

    @property
    def failed(self) -> bool:
        """Whether its store takes nothing until it is opened again."""
        return self.core is not None and self.core.store.health.failure is not None

    @property
    def store(self) -> MessageStore:
        assert self.core is not None
        return self.core.store

    # Its process

    def start(self) -> None:
        assert self.process is None
        self.lives += 1
        self.process = process = SimProcess(f"replica-{self.id}")
        self.group.net.place(process, self.host)
        self.coordinator = ProcessCoordinator(
            self.group.ensemble, self.group.loop, process, self.lost_late_ms
        )
        self._main = self.group.loop.spawn(process, self._run(process, self.coordinator))

    async def _run(self, process: SimProcess, coordinator: ProcessCoordinator) -> None:
        try:
            async with replicated(
                self.config,
                self.replication,
                address=f"{self.host}:{PORT}",
                store_host=bytes((10, 0, 0, self.id)) + PORT.to_bytes(4, "big"),
                clock=self.clock,
                chance=Random(self.chance.random()),
                disk=self.disk,
                caller=SimCaller(self),
                listening=self._listening,
                watch=self._opened,
                coordinator=coordinator,
                ports=self._ports,
                boot_id=lambda: f"boot-{self.boots}",
                threads=False,
            ) as self.replica:
                await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await coordinator.close()
            raise
        except BaseException as error:
            self.group.ended(self, error)
            raise

    @asynccontextmanager
    async def _listening(self, board: Switchboard) -> AsyncIterator[None]:
        self._line = _Line(board)
        try:
            yield
        finally:
            self._line = None
            await board.finish()

    def _ports(self, host: str, port: int) -> AbstractAsyncContextManager[HaPort]:
        assert self.process is not None
        listening = self.group.net.listen(self.process, port)
        return nullcontext(HaPort(cast(Any, listening)))

    def _opened(self, core: Core) -> None:
        self.core = core
        flushing = asyncio.get_running_loop().create_task(self._keep_flushed(core.store))
        close = core.store.close

        def closed() -> None:
            flushing.cancel()
            close()

        core.store.close = closed  # type: ignore[method-assign]
        self.group.opened(self, core)

    async def _keep_flushed(self, store: MessageStore) -> None:
        """Do what the flusher's thread does."""
        sync = store.config.flush is FlushMode.SYNC
        pauses = (0.0005, 0.001, 0.004, 0.02) if sync else (0.05, 0.2, 0.2)
        written = asyncio.Event()
        wrote = store._flusher.wrote

        def note(*tail: int) -> None:
            wrote(*tail)
            written.set()

        store._flusher.wrote = note  # type: ignore[method-assign]
        while True:
            await written.wait()
            written.clear()
            await asyncio.sleep(self.chance.choice(pauses))
            store.flush()

    def kill(self) -> None:
        """As ``kill -9``: what it had written is in the page cache."""
        self._end(dark=False)
        self.disk.kill()

    def exited(self, life: int) -> None:
        """Its process has ended by itself."""
        if self.process is not None and self.lives == life:
            self.kill()

    def lose_power(self) -> None:
        """The machine goes down: what was not synced may be gone."""
        self._end(dark=True)
        self.disk.crash()
        self.boots += 1

    def _end(self, *, dark: bool) -> None:
        assert self.process is not None
        assert self.coordinator is not None
        self.coordinator.die()
        self.group.net.lost(self.process, dark=dark)
        self.group.loop.bury(self.process)
        self.process = self.replica = self.core = self._line = None

    async def stop(self) -> None:
        """End in good order, as at SIGTERM."""
        assert self._main is not None
        process = self.process
        self._main.cancel()
        await asyncio.wait([self._main], timeout=20)
        if self.process is process and process is not None:  # else it was killed meanwhile
            self.kill()

    def pause(self) -> None:
        assert self.process is not None
        assert self.coordinator is not None
        self.process.paused = True
        self.coordinator.pause()

    def resume(self) -> None:
        assert self.process is not None
        assert self.coordinator is not None
        self.process.paused = False
        self.coordinator.resume()

    # What it is asked

    async def asked(self, by: str, request: Request[Any]) -> Command | None:
        """Answer what is asked over the network; None if nobody is there to do so."""
        net = self.group.net
        await net.way(by, self.host)
        answered: asyncio.Future[Command] = self.group.loop.create_future()

        def done(reply: Command) -> None:
            if not answered.done():
                answered.set_result(reply)

        if not self.ask(request, done):
            return None
        reply = await answered
        await net.way(self.host, by)
        return reply

    def ask(self, request: Request[Any], done: Callable[[Command], None]) -> bool:
        """Have the broker answer a request that has arrived; False if nobody is there."""
        process, line = self.process, self._line
        if process is None or line is None:
            return False
        self.group.loop.call_soon(line.ask, request, done, context=process.context)
        return True
