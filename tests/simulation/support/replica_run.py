"""Three replicas of the product that live through what a seed says, and are held to their promises.

    ReplicaRun(seed).run()

One run is some seconds of simulated time: producers send to whoever says that it leads, while
replicas are killed, lose their power, stand still, are parted from each other or from the
coordinator, resign, and have their clocks set. Then all is well again, and the group has to agree.
Everything that happens follows from the seed: a run that failed fails the same way again.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from tests.simulation.support.sim_loop import SimLoop, Stuck
from tests.simulation.support.sim_net import SimNet
from tests.simulation.support.sim_replica import ROOT, SEGMENT_BYTES, Around, SimClock, SimMachine

from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.core import Core
from rocketpipe.broker.replication.leading import outgoing
from rocketpipe.coordination.coordinator import GroupState, Leadership
from rocketpipe.errors import RocketPipeError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.batch import encode_batch
from rocketpipe.store.config import FlushMode
from rocketpipe.testing.coordinator import SimEnsemble

BROKERS: Final = logging.getLogger("rocketpipe")
LOOPS: Final = logging.getLogger("asyncio")
TOPIC: Final = "orders"
CONVERGE_MS: Final = 120_000
CHUNK_BYTES: Final = outgoing.CHUNK_BYTES
#: What goes wrong, as often as it is named.
ACTS: Final = (
    *("kill", "kill", "power", "power", "disk", "stop", "start", "start", "resign", "clock"),
    *("pause", "pause", "part", "one way", "bridge", "ring", "slow", "reset", "reset"),
    *("coordinator", "ensemble", "heal", "heal", "nothing"),
)
MODES: Final = ("C", "C", "D", "D", "C", "D", "A", "B")


class WatchedEnsemble(SimEnsemble):
    """Tells of each change of the in-sync set."""

    def __init__(self, run: ReplicaRun, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._run = run
        #: How often an answer is one of before, as of a server that lags behind the others.
        self.old_answers = 0.0
        self._before: deque[GroupState] = deque(maxlen=12)

    def _tell(self) -> None:
        self._before.append(self.state())
        super()._tell()

    def answer(self) -> GroupState:
        """The group, as who asks is told; an old answer names a leader that goes on as one."""
        if self.chance.random() >= self.old_answers:
            return self.state()
        leaders = self._run.leading()
        old = [each for each in self._before if each.leader and each.leader.id in leaders]
        return old[0] if old else self.state()

    def campaign(self, me: int, *given: Any, **named: Any) -> Leadership:
        lead = super().campaign(me, *given, **named)
        self._run.set_changed(f"{me} was elected in epoch {lead.leader.epoch}")
        return lead

    def change_in_sync(self, lead: Leadership, *given: Any) -> GroupState:
        state = super().change_in_sync(lead, *given)
        self._run.set_changed(f"{lead.leader.id} had it changed in epoch {lead.leader.epoch}")
        return state


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
        self._acts = acts
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
        #: Machines that may have lost something acknowledged, and have not got it back, with the
        #: process that was the last to have it.
        self._lossy: dict[int, int] = {}
        #: Machines whose disks were to fail.
        self._faulty: set[int] = set()
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
            self.loop.run_until_complete(self._live())
            self.promises.raise_broken()
        except (Broken, Stuck, AssertionError) as error:
            raise Broken(f"seed {self.seed} mode {self.mode}: {error}\n{self.told}") from error
        finally:
            BROKERS.removeHandler(alarms)
            LOOPS.removeHandler(alarms)
            self._end()

    def _alarmed(self, what: str) -> None:
        if self._faulty:
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
        self.ensemble.old_answers = (
            old_answers if self._old_answers is None else self._old_answers
        )
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
            await self._step()
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

    # What goes wrong

    async def _step(self) -> None:
        chance, net = self.chance, self.net
        machine = self.machines[chance.choice((1, 2, 3))]
        if chance.random() < 0.4 and (leader := self.ensemble.state().leader) is not None:
            machine = self.machines[leader.id]
        others = [each for each in self.machines.values() if each is not machine]
        act = chance.choice(self._acts)
        match act:
            case "kill" if machine.alive:
                self.say(f"kill {machine.id}")
                machine.kill()
            case "power" if machine.alive and self._may_lose(machine.id):
                self.say(f"power {machine.id}")
                machine.lose_power()
                self._may_lack(machine)
            case "disk" if machine.alive and not self._faulty and self._may_lose(machine.id):
                only = chance.choice((("sync",), ("write",), ()))
                code = chance.choice((errno.EIO, errno.EIO, errno.ENOSPC))
                self.say(
                    f"disk of {machine.id} fails, {only or 'anything'} {errno.errorcode[code]}"
                )
                machine.disk.fail(at=chance.randint(1, 20), only=only, errno=code)
                self._faulty.add(machine.id)
                self._may_lack(machine)
            case "stop" if machine.alive and not machine.paused:
                self.say(f"stop {machine.id}")
                self.loop.create_task(machine.stop())
            case "start":
                for each in self.machines.values():
                    if not each.alive:
                        self.say(f"start {each.id}")
                        each.start()
            case "pause" if machine.alive and not machine.paused:
                self.say(f"pause {machine.id}")
                machine.pause()
                self.loop.create_task(self._resume(machine, chance.choice((0.1, 0.5, 1.5, 3.0))))
            case "part":
                self.say(f"part {machine.id}")
                for each in others:
                    net.cut(machine.host, each.host)
                    net.cut(each.host, machine.host)
                if chance.random() < 0.5 and machine.coordinator is not None:
                    machine.coordinator.cut()
            case "one way":
                other = chance.choice(others)
                self.say(f"one way: nothing from {machine.id} to {other.id}")
                net.cut(machine.host, other.host)
            case "bridge":
                a, b = others
                self.say(f"bridge {machine.id}")
                net.cut(a.host, b.host)
                net.cut(b.host, a.host)
            case "ring":
                self.say("ring")
                for a, b in ((1, 2), (2, 3), (3, 1)):
                    net.cut(self.machines[a].host, self.machines[b].host)
            case "slow":
                self.say(f"slow {machine.id}")
                for each in others:
                    net.slow(machine.host, each.host)
                    net.slow(each.host, machine.host)
            case "reset":
                self.say(f"reset {machine.id}")
                for each in others:
                    net.reset(machine.host, each.host)
                    net.reset(each.host, machine.host)
            case "heal":
                self.say("heal")
                self._heal_ways()
            case "coordinator" if machine.coordinator is not None:
                self.say(f"coordinator away from {machine.id}")
                machine.coordinator.cut()
            case "ensemble":
                self.say(f"ensemble {'down' if self.ensemble.up else 'up'}")
                (self.ensemble.stop if self.ensemble.up else self.ensemble.start)()
            case "resign" if machine.replica is not None and machine.process is not None:
                self.say(f"resign {machine.id}")
                to = chance.choice((None, 1, 2, 3))
                self.loop.spawn(machine.process, self._resign(machine, to))
            case "clock":
                machine.clock.wrong_ms = chance.choice(
                    (-3_600_000, -5_000, -20, 0, 900, 86_400_000)
                )
                self.say(f"clock {machine.id} {machine.clock.wrong_ms}")

    def _may_lose(self, id_: int) -> bool:
        """Whether a machine may lose its power: not the last that has what was acknowledged."""
        if self.mode in "BD":
            return True
        self._look_lossy()
        return bool(self.ensemble.state().in_sync - self._lossy.keys() - {id_})

    def _may_lack(self, machine: SimMachine) -> None:
        if self.mode in "AC":
            self._lossy[machine.id] = machine.lives

    def _look_lossy(self) -> None:
        """Those that lost something count again when they say that they have it again."""
        for id_, life in list(self._lossy.items()):
            machine = self.machines[id_]
            replica = machine.replica
            if machine.lives > life and replica is not None and replica.run.is_clean:
                del self._lossy[id_]

    async def _resume(self, machine: SimMachine, after_s: float) -> None:
        process = machine.process
        await asyncio.sleep(after_s)
        if machine.process is process and machine.paused:
            self.say(f"resume {machine.id}")
            machine.resume()

    @staticmethod
    async def _resign(machine: SimMachine, to: int | None) -> None:
        if machine.replica is not None and machine.replica.resign is not None:
            with suppress(RocketPipeError):
                await machine.replica.resign(to)

    # And is well again

    def _heal_ways(self) -> None:
        self.net.heal()
        for machine in self.machines.values():
            if machine.coordinator is not None:
                machine.coordinator.heal()

    async def _heal(self) -> None:
        self.say("all is well")
        self.ensemble.start()
        self._heal_ways()
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
            if machine.alive and machine.id in self._faulty and machine.failed:
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
        batch = len(bodies) > 1
        request = SendMessage(
            producer_group="producers",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=2,
            queue_id=chance.randrange(2),
            sys_flag=0,
            born_timestamp=1_700_000_000_000,
            flag=0,
            batch=batch,
            body=encode_batch((0, body, b"") for body in bodies) if batch else bodies[0],
        )
        machine.ask(request, partial(self._answered, machine, numbers))

    # What a machine tells

    def ended(self, machine: SimMachine, error: BaseException) -> None:
        if machine.id in self._faulty:
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
        self._look_lossy()
        return [
            (id_, _on_disk(self.machines[id_], at, size, durable=self.mode == "D"))
            for id_ in sorted(self.ensemble.state().in_sync - self._lossy.keys())
        ]

    def set_changed(self, why: str) -> None:
        self.say(f"{why}: in sync are {sorted(self.ensemble.state().in_sync)}")
        self.promises.set_changed(why, self._members)
        self._look_lossy()
        if not self.ensemble.state().in_sync - self._lossy.keys():
            # Whose disk is yet to fail is the last that has everything: there it must not.
            for id_ in self._faulty & self._lossy.keys():
                if self.machines[id_].disk.heal():
                    del self._lossy[id_]


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
