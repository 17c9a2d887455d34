"""What goes wrong for simulated replicas, and who may lack something because of it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final, Protocol

from tests.simulation.support.sim_loop import SimLoop
from tests.simulation.support.sim_net import SimNet
from tests.simulation.support.sim_replica import SimMachine

from rocketpipe.errors import RocketPipeError
from rocketpipe.testing.coordinator import SimEnsemble

#: What goes wrong, as often as it is named.
ACTS: Final = (
    *("kill", "kill", "power", "power", "disk", "stop", "start", "start", "resign", "clock"),
    *("pause", "pause", "part", "one way", "bridge", "ring", "slow", "reset", "reset"),
    *("coordinator", "ensemble", "heal", "heal", "nothing"),
)


class Running(Protocol):
    """The run to which it happens."""

    mode: str
    chance: Random
    loop: SimLoop
    net: SimNet
    ensemble: SimEnsemble
    machines: dict[int, SimMachine]

    def say(self, what: str) -> None:
        """Have it in the story."""
        ...

    def heal_ways(self) -> None:
        """Have everybody reach everybody."""
        ...


class Mishaps:
    """One after the other, as the run's chance says."""

    def __init__(self, run: Running, acts: Sequence[str] = ACTS) -> None:
        self._run = run
        self._acts = acts
        #: Machines that may have lost something acknowledged, and have not got it back, with the
        #: process that was the last to have it.
        self.lossy: dict[int, int] = {}
        #: Machines whose disks were to fail.
        self.faulty: set[int] = set()

    def happen(self) -> None:
        """Have one thing go wrong, or right."""
        run, chance, net = self._run, self._run.chance, self._run.net
        machine = run.machines[chance.choice((1, 2, 3))]
        if chance.random() < 0.4 and (leader := run.ensemble.state().leader) is not None:
            machine = run.machines[leader.id]
        others = [each for each in run.machines.values() if each is not machine]
        act = chance.choice(self._acts)
        match act:
            case "kill" if machine.alive:
                run.say(f"kill {machine.id}")
                machine.kill()
            case "power" if machine.alive and self._may_lose(machine.id):
                run.say(f"power {machine.id}")
                machine.lose_power()
                self._may_lack(machine)
            case "disk" if machine.alive and not self.faulty and self._may_lose(machine.id):
                only = chance.choice((("sync",), ("write",), ()))
                code = chance.choice((errno.EIO, errno.EIO, errno.ENOSPC))
                run.say(f"disk of {machine.id} fails, {only or 'anything'} {errno.errorcode[code]}")
                machine.disk.fail(at=chance.randint(1, 20), only=only, errno=code)
                self.faulty.add(machine.id)
                self._may_lack(machine)
            case "stop" if machine.alive and not machine.paused:
                run.say(f"stop {machine.id}")
                run.loop.create_task(machine.stop())
            case "start":
                for each in run.machines.values():
                    if not each.alive:
                        run.say(f"start {each.id}")
                        each.start()
            case "pause" if machine.alive and not machine.paused:
                run.say(f"pause {machine.id}")
                machine.pause()
                run.loop.create_task(self._resume(machine, chance.choice((0.1, 0.5, 1.5, 3.0))))
            case "part":
                run.say(f"part {machine.id}")
                for each in others:
                    net.cut(machine.host, each.host)
                    net.cut(each.host, machine.host)
                if chance.random() < 0.5 and machine.coordinator is not None:
                    machine.coordinator.cut()
            case "one way":
                other = chance.choice(others)
                run.say(f"one way: nothing from {machine.id} to {other.id}")
                net.cut(machine.host, other.host)
            case "bridge":
                a, b = others
                run.say(f"bridge {machine.id}")
                net.cut(a.host, b.host)
                net.cut(b.host, a.host)
            case "ring":
                run.say("ring")
                for a, b in ((1, 2), (2, 3), (3, 1)):
                    net.cut(run.machines[a].host, run.machines[b].host)
            case "slow":
                run.say(f"slow {machine.id}")
                for each in others:
                    net.slow(machine.host, each.host)
                    net.slow(each.host, machine.host)
            case "reset":
                run.say(f"reset {machine.id}")
                for each in others:
                    net.reset(machine.host, each.host)
                    net.reset(each.host, machine.host)
            case "heal":
                run.say("heal")
                run.heal_ways()
            case "coordinator" if machine.coordinator is not None:
                run.say(f"coordinator away from {machine.id}")
                machine.coordinator.cut()
            case "ensemble":
                run.say(f"ensemble {'down' if run.ensemble.up else 'up'}")
                (run.ensemble.stop if run.ensemble.up else run.ensemble.start)()
            case "resign" if machine.replica is not None and machine.process is not None:
                run.say(f"resign {machine.id}")
                to = chance.choice((None, 1, 2, 3))
                run.loop.spawn(machine.process, self._resign(machine, to))
            case "clock":
                machine.clock.wrong_ms = chance.choice(
                    (-3_600_000, -5_000, -20, 0, 900, 86_400_000)
                )
                run.say(f"clock {machine.id} {machine.clock.wrong_ms}")

    def _may_lose(self, id_: int) -> bool:
        """Whether a machine may lose its power: not the last that has what was acknowledged."""
        if self._run.mode in "BD":
            return True
        self.look()
        return bool(self._run.ensemble.state().in_sync - self.lossy.keys() - {id_})

    def _may_lack(self, machine: SimMachine) -> None:
        if self._run.mode in "AC":
            self.lossy[machine.id] = machine.lives

    def look(self) -> None:
        """Those that lost something count again when they say that they have it again."""
        for id_, life in list(self.lossy.items()):
            machine = self._run.machines[id_]
            replica = machine.replica
            if machine.lives > life and replica is not None and replica.run.is_clean:
                del self.lossy[id_]

    async def _resume(self, machine: SimMachine, after_s: float) -> None:
        process = machine.process
        await asyncio.sleep(after_s)
        if machine.process is process and machine.paused:
            self._run.say(f"resume {machine.id}")
            machine.resume()

    @staticmethod
    async def _resign(machine: SimMachine, to: int | None) -> None:
        if machine.replica is not None and machine.replica.resign is not None:
            with suppress(RocketPipeError):
                await machine.replica.resign(to)

    def spare(self) -> None:
        """Have no disk fail any more that is the last to have everything acknowledged."""
        self.look()
        if not self._run.ensemble.state().in_sync - self.lossy.keys():
            for id_ in self.faulty & self.lossy.keys():
                if self._run.machines[id_].disk.heal():
                    del self.lossy[id_]
