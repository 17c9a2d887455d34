"""The store against a dictionary, with steps that hypothesis chooses and shrinks.

The dictionary is inside `Promises`: what was sent, where it went, and what of it must be there.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rocketpipe.store.config import FlushMode
from rocketpipe.store.state.health import StoreState
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut, Progress
from rocketpipe.testing.simulation.small_store import SEGMENT_BYTES, TOPICS
from rocketpipe.testing.simulation.store_user import StoreUser


@settings(max_examples=60, stateful_step_count=40)
class StoreModel(RuleBasedStateMachine):
    """Append, read, flush, crash, reopen and delete in any order: nothing promised is broken."""

    @initialize(seed=st.integers(0, 1 << 16), flush=st.sampled_from(FlushMode))
    def begin(self, seed: int, flush: FlushMode) -> None:
        self.disk = SimDisk(seed)
        self.user = StoreUser(self.disk, flush)
        self.user.open()

    @rule(groups=st.lists(st.integers(1, 5), min_size=1, max_size=3))
    def append(self, groups: list[int]) -> None:
        self.until_power_goes(lambda: self.user.append(*groups))

    @rule()
    def flush(self) -> None:
        self.until_power_goes(self.user.flush)

    @rule()
    def dispatch(self) -> None:
        self.until_power_goes(self.user.dispatch)

    @rule(
        topic=st.sampled_from(TOPICS),
        queue_id=st.integers(0, 2),
        offset=st.integers(-1, 30),
        count=st.integers(1, 40),
    )
    def read(self, topic: str, queue_id: int, offset: int, count: int) -> None:
        self.until_power_goes(lambda: self.user.read(topic, queue_id, offset, count))

    @rule(share=st.floats(0, 1))
    def delete(self, share: float) -> None:
        first = int(self.user.store.first_offset)
        last = int(self.user.store.positions.durable) - SEGMENT_BYTES
        if last > first:
            before = first + int(share * (last - first))
            self.until_power_goes(lambda: self.user.delete(before))

    @rule(at=st.integers(1, 40))
    def power_will_go(self, at: int) -> None:
        self.disk.cut_power(at=at)

    @rule(
        at=st.integers(1, 40),
        progress=st.sampled_from(Progress),
        only=st.sampled_from([(), ("sync",), ("write",)]),
    )
    def disk_will_fail(self, at: int, progress: Progress, only: tuple[str, ...]) -> None:
        self.disk.fail(at=at, progress=progress, only=only)

    @rule()
    def close(self) -> None:
        self.until_power_goes(self.user.close)
        self.reopen()

    @rule()
    def kill(self) -> None:
        self.user.kill()
        self.reopen()

    @rule()
    def lose_power(self) -> None:
        self.user.lose_power()
        self.reopen()

    @precondition(lambda self: self.user.store.state is StoreState.FAILED)
    @rule()
    def restart_what_failed(self) -> None:
        self.user.kill()
        self.reopen()

    @invariant()
    def nothing_is_broken(self) -> None:
        if hasattr(self, "user"):
            self.user.promises.raise_broken()

    def until_power_goes(self, act: object) -> None:
        try:
            act()
        except PowerCut:
            self.user.lose_power()
            self.reopen()

    def reopen(self) -> None:
        if self.user.is_open:
            return
        self.disk.heal()
        self.user.open()
        self.user.check()


test_the_store_is_as_its_model = StoreModel.TestCase
