"""A store that is used, failed and restarted as a seed says, and held to its promises.

    StoreRun(seed, FlushMode.SYNC).run()

One run is a few lives of one store on a `SimDisk`: each life appends, flushes, dispatches, reads
and deletes in random order, until the power goes, the process dies, the disk fails, or the store
is closed. Then it is opened again, and everything in it is compared with what was promised.
Everything that happens follows from the seed: a run that failed fails the same way again.
"""

from __future__ import annotations

import errno
import random
from typing import Final

from rocketpipe.store.config import FlushMode
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.promises import PromiseBroken
from rocketpipe.testing.simulation.sim_fault import PowerCut, Progress
from rocketpipe.testing.simulation.small_store import SEGMENT_BYTES, TOPICS
from rocketpipe.testing.simulation.store_user import StoreUser

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: A round of syncs is due after it.
_ROUND_MS: Final = 5000
_ACTS: Final = ("append",) * 10 + ("flush",) * 5 + ("dispatch",) * 5 + ("read",) * 4 + ("delete",)


class StoreRun:
    """A few lives of one store; `run` raises if a promise was broken in any of them."""

    def __init__(
        self,
        seed: int,
        flush: FlushMode,
        *,
        lives: int | None = None,
        steps: int | None = None,
        late: bool = False,
    ) -> None:
        """The seed decides how many lives there are, and how long, unless that is said.

        With ``late``, rounds of syncs fall due all the time, and are done beside the store: between
        a file's last write and its sync anything may happen.
        """
        self.seed = seed
        self.chance = random.Random(seed)  # noqa: S311 - the same run every time
        self.disk = SimDisk(seed)
        self.user = StoreUser(self.disk, flush, late=late)
        self._late = late
        self._lives = lives or self.chance.choice((2, 3, 3, 6))
        self._steps = steps or self.chance.choice((15, 25, 45))

    def run(self) -> None:
        """Live, and be checked after each death.

        Raises:
            PromiseBroken: With the seed, and what the run consisted of.
        """
        try:
            for _ in range(self._lives):
                self._live()
            self.disk.heal()
            self.user.open()
            self.user.check()
        except PromiseBroken as error:
            raise PromiseBroken(f"{self._name}: {error} [{self._story}]") from error
        except Exception as error:
            error.add_note(f"{self._name}: {self._story}")
            raise

    @property
    def _name(self) -> str:
        return f"seed {self.seed} {self.user.flush_mode.name}"

    @property
    def _story(self) -> str:
        return ", ".join(self.user.story)

    def _live(self) -> None:
        try:
            if self.chance.random() < 0.2:
                # The power goes again while the store recovers from when it went before.
                self.disk.cut_power(at=self.chance.randint(1, 60))
            self.user.open()
            self.disk.heal()
            self.user.check()
            self._arm()
            for _ in range(self._steps):
                self._act()
                self.user.promises.raise_broken()
            end = self.chance.choice(
                (self.user.close, self.user.kill, self.user.lose_power, self.user.lose_power)
            )
            end()
        except PowerCut:
            # As good a moment as any for the process alone to die, in the midst of something.
            if self.chance.random() < 0.3:
                self.user.kill()
            else:
                self.user.lose_power()

    def _arm(self) -> None:
        """Choose what this life will have to bear."""
        fate = self.chance.choice(("peace", "cut", "cut", "cut", "error", "error", "full"))
        self.user.story.append(fate)
        at = self.chance.randint(1, 120)
        if fate == "cut":
            self.disk.cut_power(at=at)
        elif fate == "error":
            progress = self.chance.choice(list(Progress))
            only = self.chance.choice(((), ("sync",), ("sync",), ("write",)))
            self.disk.fail(at=at // 20 + 1 if only else at, only=only, progress=progress)
            if self.chance.random() < 0.3:
                # Nor can the store leave word of it for its next life.
                self.disk.fail(path="/failed", times=3)
        elif fate == "full":
            self.disk.fail(
                at=at // 8 + 1,
                only=self.chance.choice((("preallocate",), ("write",))),
                errno=self.chance.choice(_NO_ROOM),
                times=self.chance.randint(1, 3),
            )

    def _act(self) -> None:
        user, chance = self.user, self.chance
        act = chance.choice(_ACTS)
        if self._late:
            if chance.random() < 0.4:
                user.work()
            if chance.random() < 0.3:
                user.wait(_ROUND_MS)
        if act == "append":
            groups = chance.choice((1, 1, 2))
            user.append(*(chance.choice((1, 1, 2, 4)) for _ in range(groups)))
        elif act == "flush":
            user.flush()
        elif act == "dispatch":
            user.dispatch()
        elif act == "read":
            user.read(chance.choice(TOPICS), chance.randrange(2), chance.randint(0, 9), 32)
        else:
            first = int(user.store.first_offset)
            last = int(user.store.positions.durable) - SEGMENT_BYTES
            if last > first:
                user.delete(chance.randint(first, last))
