"""Three replicas of the product that live through what a seed says, and are held to their promises.

    ReplicaRun(seed).run()

One run is some seconds of simulated time: producers send to whoever says that it leads, while
replicas are killed, lose their power, stand still, are parted from each other or from the
coordinator, resign, and have their clocks set. Then all is well again, and the group has to agree.
Everything that happens follows from the seed: a run that failed fails the same way again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final

from tests.simulation.support.group_promises import (
    ID_BYTES,
    Acked,
    Broken,
    GroupPromises,
    log_bytes,
)
from tests.simulation.support.mishaps import ACTS, Mishaps
from tests.simulation.support.sim_loop import SimLoop, Stuck
from tests.simulation.support.sim_net import SimNet
from tests.simulation.support.sim_replica import ROOT, SEGMENT_BYTES, Around, SimClock, SimMachine
from tests.simulation.support.watched_ensemble import WatchedEnsemble

from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.core import Core
from rocketpipe.broker.replication.leading import outgoing
from rocketpipe.broker.roles import replicated
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.batch import encode_batch
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.upkeep.cutting import cut
from rocketpipe.testing.simulation.disk import SimDisk

BROKERS: Final = logging.getLogger("rocketpipe")
LOOPS: Final = logging.getLogger("asyncio")
TOPIC: Final = "orders"
CONVERGE_MS: Final = 60_000
CHUNK_BYTES: Final = outgoing.CHUNK_BYTES
MODES: Final = ("C", "C", "D", "D", "C", "D", "A", "B")


class Alarms(logging.Handler):
    """What brokers log as an exception is an error that nobody thought of."""

    def __init__(self, found: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._found(f"{record.getMessage()}: {record.exc_info[1]!r}")


class ReplicaRun(Around):
    """One run; `run` raises if a promise was broken."""

    def __init__(
        self,
        seed: int,
        *,
        mode: str | None = None,
        steps: int | None = None,
        acts: Sequence[str] = ACTS,
        old_answers: float | None = None,
        lost_late_ms: int | None = None,
    ) -> None:
        """The seed decides whatever is not said."""
        self.seed = seed
        self.mishaps = Mishaps(self, acts)
        self._old_answers = old_answers
        self._lost_late_ms = lost_late_ms
        self.chance = Random(seed)
        self.mode = mode or self.chance.choice(MODES)
        self._steps = steps or self.chance.choice((6, 10, 14))
        #: What goes to followers at once: less than a group, sometimes.
        self._chunk_bytes = self.chance.choice((1_500, 6_000, CHUNK_BYTES))
        self.loop = SimLoop(seed)
        self.net = SimNet(self.loop, Random(seed ^ 0x5EED))
        self.promises = GroupPromises(TOPIC, waits=self.mode in "CD")
        self.machines: dict[int, SimMachine] = {}
        self.story: list[str] = []
        self._numbers = count(1)
        self._epochs: dict[int, int] = {}
        self._sending = True

    # The run

    def run(self) -> None:
        """Live, heal, and agree.

        Raises:
            Broken: With the seed, and what the run consisted of.
        """
        alarms = Alarms(self._alarmed)
        BROKERS.addHandler(alarms)
        LOOPS.addHandler(alarms)
        try:
            asyncio.set_event_loop(self.loop)
            outgoing.CHUNK_BYTES = self._chunk_bytes  # type: ignore[misc]
            replicated.cut = self._cut  # type: ignore[attr-defined]
            self.loop.run_until_complete(self._live())
            self.promises.raise_broken()
        except (Broken, Stuck, AssertionError) as error:
            raise Broken(f"seed {self.seed} mode {self.mode}: {error}\n{self.told}") from error
        finally:
            BROKERS.removeHandler(alarms)
            LOOPS.removeHandler(alarms)
            self._end()

    def _alarmed(self, what: str) -> None:
        if self.mishaps.faulty:
            self.say(what)
        else:
            self.promises.breaks(f"error: {what}")

    @property
    def told(self) -> str:
        """What happened, and how to see it happen again."""
        story = "\n".join(f"  {line}" for line in self.story[-60:])
        return f"{story}\nreplay: .venv/bin/python -m tests.simulation.replay {self.seed}"

    def _end(self) -> None:
        outgoing.CHUNK_BYTES = CHUNK_BYTES  # type: ignore[misc]
        replicated.cut = cut  # type: ignore[attr-defined]
        for machine in self.machines.values():
            machine.disk._off = True
            if machine.process is not None:
                self.loop.bury(machine.process)
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            self.loop.close()
        finally:
            logging.disable(before)
            asyncio.set_event_loop(None)

    def say(self, what: str) -> None:
        self.story.append(f"{self.loop.time():8.3f} {what}")

    async def _live(self) -> None:
        chance = self.chance
        self.ensemble = WatchedEnsemble(
            self,
            SimClock(self.loop),
            Random(chance.random()),
            late_ms=chance.choice((5, 30)),
            watches_lost=chance.choice((0.0, 0.2)),
        )
        old_answers = chance.choice((0.0, 0.0, 0.0, 0.2))
        self.ensemble.old_answers = old_answers if self._old_answers is None else self._old_answers
        role = BrokerRole.ASYNC_MASTER if self.mode in "AB" else None
        flush = FlushMode.SYNC if self.mode in "BD" else FlushMode.ASYNC
        lost_late_ms = chance.choice((0, 0, 400, 1500))
        for id_ in (1, 2, 3):
            seed = chance.getrandbits(32)
            self.machines[id_] = machine = SimMachine(self, id_, seed, role=role, flush=flush)
            machine.lost_late_ms = (
                lost_late_ms if self._lost_late_ms is None else self._lost_late_ms
            )
        world = [self._keep_sessions(), self._produce()]
        tasks = [self.loop.create_task(each) for each in world]
        for machine in self.machines.values():
            machine.start()
        await self._until(lambda: len(self.ensemble.state().in_sync) > 1, "began")
        for _ in range(self._steps):
            self.mishaps.happen()
            await asyncio.sleep(chance.choice((0.005, 0.02, 0.05, 0.2, 0.2, 0.7, 1.5)))
            self.promises.raise_broken()
        await self._heal()
        for task in tasks:
            task.cancel()

    def machine_at(self, host: str) -> SimMachine:
        return self.machines[int(host.rpartition(".")[2])]

    async def _keep_sessions(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            self.ensemble.tick()

    async def _until(self, holds: Callable[[], object], what: str) -> None:
        deadline = self.loop.time() + CONVERGE_MS / 1000
        while not holds():
            if self.loop.time() >= deadline:
                raise Broken(f"not {what} within {CONVERGE_MS} ms: {self._standing()}")
            await asyncio.sleep(0.05)
            self.promises.raise_broken()

    def _standing(self) -> str:
        state = self.ensemble.state()
        lines = [f"leader {state.leader and state.leader.id}, in sync {sorted(state.in_sync)}"]
        for machine in self.machines.values():
            replica = machine.replica
            if replica is not None:
                at = replica.run.core.store.positions
                lines.append(
                    f"{machine.id} leads={replica.leads} refused={replica.refused} "
                    f"clean={replica.run.is_clean} written={at.written} "
                    f"confirmed={at.confirmed} dispatched={at.dispatched}"
                )
        return "; ".join(lines)

    # And is well again

    def heal_ways(self) -> None:
        self.net.heal()
        for machine in self.machines.values():
            if machine.coordinator is not None:
                machine.coordinator.heal()

    async def _heal(self) -> None:
        self.say("all is well")
        self.ensemble.start()
        self.heal_ways()
        for machine in self.machines.values():
            machine.disk.heal()
            if machine.paused:
                machine.resume()
        await asyncio.sleep(0.05)
        for machine in self.machines.values():
            if not machine.alive:
                machine.start()
            machine.clock.wrong_ms = 0
        acked = len(self.promises.acked)
        await self._until(self._all_in_sync, "in sync")
        await self._until(lambda: len(self.promises.acked) > acked, "taking sends")
        self._sending = False
        await self._until(self._agreed, "agreed")
        leader = self.ensemble.state().leader
        assert leader is not None
        self.promises.check_end(
            {id_: log_bytes(machine.store) for id_, machine in self.machines.items()}, leader.id
        )
        self._check_queues(leader.id)

    def _all_in_sync(self) -> bool:
        for machine in self.machines.values():
            if machine.alive and machine.id in self.mishaps.faulty and machine.failed:
                machine.kill()
            if not machine.alive:  # or was still stopping when all became well
                machine.start()
        state = self.ensemble.state()
        return state.leader is not None and len(state.in_sync) == len(self.machines)

    def _agreed(self) -> bool:
        if not self._all_in_sync():
            return False
        replicas = [machine.replica for machine in self.machines.values()]
        if any(replica is None for replica in replicas):
            return False
        ends = {machine.store.positions.written for machine in self.machines.values()}
        shown = {machine.store.positions.dispatched for machine in self.machines.values()}
        return len(ends) == 1 and shown == ends

    def _check_queues(self, leader: int) -> None:
        ends = {
            id_: {queue: machine.store.max_offset(*queue) for queue in machine.store.queues()}
            for id_, machine in self.machines.items()
        }
        for id_, queues in ends.items():
            if queues != ends[leader]:
                self.promises.breaks(f"divergence: queues of {id_}: {queues}, {ends[leader]}")

    # Producers

    def leading(self) -> list[int]:
        """Those that lead, as they see it."""
        return [
            id_
            for id_, machine in self.machines.items()
            if machine.replica is not None and machine.replica.leads
        ]

    async def _produce(self) -> None:
        chance = Random(self.chance.random())
        while self._sending:
            await asyncio.sleep(chance.choice((0.005, 0.03, 0.1, 0.2)))
            leading = [self.machines[id_] for id_ in self.leading()]
            if leading or chance.random() < 0.2:
                machine = chance.choice(leading or list(self.machines.values()))
                way_s = chance.choice((0.0005, 0.002, 0.05))
                self.loop.call_later(way_s, self._send, machine, chance)

    def _send(self, machine: SimMachine, chance: Random) -> None:
        numbers = [next(self._numbers) for _ in range(chance.choice((1, 1, 1, 2, 5)))]
        bodies = [
            number.to_bytes(ID_BYTES, "big") + bytes(chance.choice((0, 10, 200, 1500)))
            for number in numbers
        ]
        # A message with a key of its own goes by the fast path, any other by the handlers.
        keyed = chance.random() < 0.7
        texts = [f"UNIQ_KEY\x01{number:032X}\x02" if keyed else "" for number in numbers]
        batch = len(bodies) > 1
        entries = [(0, body, text.encode()) for body, text in zip(bodies, texts, strict=True)]
        request = SendMessage(
            producer_group="producers",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=2,
            queue_id=chance.randrange(2),
            sys_flag=0,
            born_timestamp=1_700_000_000_000,
            flag=0,
            properties="" if batch else texts[0],
            batch=batch,
            body=encode_batch(entries) if batch else bodies[0],
        )
        machine.ask(request, partial(self._answered, machine, numbers))

    # What a machine tells

    def ended(self, machine: SimMachine, error: BaseException) -> None:
        if machine.id in self.mishaps.faulty:
            self.say(f"{machine.id} has ended: {error!r}")
            self.loop.call_soon(machine.exited, machine.lives, context=self.loop.world.context)
        else:
            self.promises.breaks(f"{machine.id} has ended: {error!r}")

    def opened(self, machine: SimMachine, core: Core) -> None:
        store, promises = core.store, self.promises
        seen = [0]
        dispatch, stand = store.dispatch, core.registrar.stand

        def look() -> None:
            end = store.positions.dispatched
            if end > seen[0]:
                promises.saw(machine.id, seen[0], log_bytes(store, seen[0], end), self._members)
                seen[0] = end

        def dispatched(limit_bytes: int | None = None) -> int:
            done = dispatch(limit_bytes)
            look()
            return done

        def stands(broker_id: int, ha_address: str, epoch: int) -> None:
            stand(broker_id, ha_address, epoch)
            if broker_id == 0:
                self._epochs[machine.id] = epoch
                self.say(f"{machine.id} leads in epoch {epoch}")
                promises.serves(machine.id, epoch, store)

        look()
        store.dispatch = dispatched  # type: ignore[method-assign]
        core.registrar.stand = stands  # type: ignore[method-assign]

    def _cut(self, config: StoreConfig, disk: SimDisk, clock: SimClock, to: LogOffset) -> object:
        (machine,) = (each for each in self.machines.values() if each.disk is disk)
        self.promises.cuts(machine.id, to, partial(_on_disk, machine, durable=False))
        return cut(config, disk, clock, to)

    def _answered(self, machine: SimMachine, numbers: list[int], reply: Command) -> None:
        """A broker is about to answer a producer."""
        if reply.code != ResponseCode.SUCCESS:
            return
        places = [int(text[-16:], 16) for text in reply.fields["msgId"].split(",")]
        first = int(reply.fields["queueOffset"])
        for index, (number, at) in enumerate(zip(numbers, places, strict=True)):
            acked = Acked(
                number, at, int(reply.fields["queueId"]), first + index, self._epochs[machine.id]
            )
            record = self._bytes_of(machine, at)
            self.promises.acknowledged(acked, record, machine.id, self._members)

    def _bytes_of(self, machine: SimMachine, at: int) -> bytes:
        size = int.from_bytes(_on_disk(machine, at, 4, durable=False), "big")
        return _on_disk(machine, at, size, durable=False)

    def _members(self, at: int, size: int) -> list[tuple[int, bytes]]:
        """What of the log those have that are in sync, and may lead."""
        self.mishaps.look()
        return [
            (id_, _on_disk(self.machines[id_], at, size, durable=self.mode == "D"))
            for id_ in sorted(self.ensemble.state().in_sync - self.mishaps.lossy.keys())
        ]

    def set_changed(self, why: str) -> None:
        self.say(f"{why}: in sync are {sorted(self.ensemble.state().in_sync)}")
        self.promises.set_changed(why, self._members)
        self.mishaps.spare()


def _on_disk(machine: SimMachine, at: int, size: int, *, durable: bool) -> bytes:
    """Bytes of a machine's log as its disk has them, whether or not a process runs."""
    found = b""
    while size > 0:
        base = at - at % SEGMENT_BYTES
        path = ROOT / "commitlog" / f"{base:020d}"
        names = machine.disk._durable_names if durable else machine.disk._names
        node: Any = names.get(path)
        if node is None:
            break
        content = node.durable if durable else node.cached
        piece = bytes(content[at - base : min(SEGMENT_BYTES, at - base + size)])
        found += piece
        at, size = at + len(piece), size - len(piece)
        if not piece:
            break
    return found
