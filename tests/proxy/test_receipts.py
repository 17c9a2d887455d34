from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from rocketpipe.errors import RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.ids import ReceiptHandle, RetryKind
from rocketpipe.protocol.requests.popping import ChangeInvisibleTime, ChangeInvisibleTimeReply
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.receipts import LONGEST_MS, STEPS_MS, Held, Receipts
from rocketpipe.proxy.sessions import Session
from rocketpipe.proxy.status import Refused
from rocketpipe.testing import ManualClock


class Broker:
    """Answers what hides messages, and notes it; ``refuse`` has it say no."""

    def __init__(self, clock: ManualClock) -> None:
        self.asked: list[ChangeInvisibleTime] = []
        self.refuse = False
        self._clock = clock

    async def ask(self, broker: str, request: Any, *_: object) -> ChangeInvisibleTimeReply:
        self.asked.append(request)
        if self.refuse:
            raise RequestRejected(208, "no such message")
        return ChangeInvisibleTimeReply(
            pop_time=self._clock.now_ms(), invisible_time=request.invisible_time, revive_qid=1
        )

    async def group(self, name: str) -> GroupSettings:
        return GroupSettings(name=name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(clock: ManualClock) -> Broker:
    return Broker(clock)


@pytest.fixture
def receipts(broker: Broker, clock: ManualClock) -> Receipts:
    return Receipts(cast("Backend", broker), ProxyConfig(max_renewed=3), clock)


@pytest.fixture
def hold(receipts: Receipts, clock: ManualClock) -> Callable[..., Held]:
    session = Session(("", "c"), "c", None)

    def one(given: str = "given", offset: int = 7) -> Held:
        handle = ReceiptHandle(
            start_offset=0,
            pop_ms=clock.now_ms(),
            invisible_ms=60_000,
            revive_queue_id=0,
            retry=RetryKind.NORMAL,
            broker="b",
            queue_id=0,
            queue_offset=offset,
        )
        held = Held(
            session=session,
            by=None,
            topic="t",
            group="g",
            handle=handle,
            attempts=0,
            since_ms=clock.monotonic_ms(),
            hidden_until_ms=clock.monotonic_ms() + 60_000,
        )
        receipts.hold(held, given)
        return held

    return one


async def test_what_is_hidden_for_long_is_left_alone(
    receipts: Receipts, broker: Broker, clock: ManualClock, hold: Callable[..., Held]
) -> None:
    hold()
    await clock.advance(49_000)
    await receipts.renew_due()
    assert broker.asked == []


async def test_renewals_grow(
    receipts: Receipts, broker: Broker, clock: ManualClock, hold: Callable[..., Held]
) -> None:
    held = hold()
    for step_ms in (*STEPS_MS, STEPS_MS[-1]):
        await clock.advance(held.hidden_until_ms - clock.monotonic_ms() - 10_000)
        if clock.monotonic_ms() - held.since_ms >= LONGEST_MS:
            break
        await receipts.renew_due()
        assert broker.asked[-1].invisible_time == step_ms
    current = receipts.current(held.session, "g", "given")
    assert current is not None
    assert current.pop_ms > 0
    assert current.start_offset == 7


async def test_what_is_held_too_long_comes_again_by_the_groups_policy(
    receipts: Receipts, broker: Broker, clock: ManualClock, hold: Callable[..., Held]
) -> None:
    held = hold()
    await clock.advance(LONGEST_MS)
    await receipts.renew_due()
    assert broker.asked[-1].invisible_time == 10_000
    assert receipts.current(held.session, "g", "given") is None
    assert len(receipts) == 0


async def test_what_is_refused_three_times_is_forgotten(
    receipts: Receipts, broker: Broker, clock: ManualClock, hold: Callable[..., Held]
) -> None:
    held = hold()
    broker.refuse = True
    await clock.advance(55_000)
    for left in (1, 1, 0):
        await receipts.renew_due()
        assert len(receipts) == left
    assert receipts.current(held.session, "g", "given") is None


async def test_what_a_client_held_shows_soon_after_it_is_gone(
    receipts: Receipts, broker: Broker, hold: Callable[..., Held]
) -> None:
    held = hold("one", 1)
    hold("two", 2)
    await receipts.give_back(held.session)
    assert sorted(asked.offset for asked in broker.asked) == [1, 2]
    assert {asked.invisible_time for asked in broker.asked} == {1000}
    assert len(receipts) == 0


async def test_receipts_are_bounded(receipts: Receipts, hold: Callable[..., Held]) -> None:
    hold("one")
    receipts.check_room(2)
    with pytest.raises(Refused):
        receipts.check_room(3)


async def test_a_receipt_that_is_done_with_is_not_renewed(
    receipts: Receipts, broker: Broker, clock: ManualClock, hold: Callable[..., Held]
) -> None:
    held = hold()
    receipts.release(held.session, "g", "given")
    receipts.release(held.session, "g", "given")
    assert len(receipts) == 0
    await clock.advance(59_000)
    await receipts.renew_due()
    assert broker.asked == []
