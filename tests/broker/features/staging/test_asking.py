"""What a broker does about batches that were prepared, and of which it hears no more."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.support.staging_parts import EXPIRY_MS
from tests.broker.support.staging_world import TOPIC, World

from rocketpipe.broker.features.staging.asking import WAIT_MS
from rocketpipe.client.producer.staging.content import checksum
from rocketpipe.errors import BatchMismatch, ConnectionLost, RequestRejected, RocketPipeError
from rocketpipe.protocol.requests.staging import (
    AskStages,
    CommitStages,
    PrepareStages,
    SettleStages,
    home_key,
)

ROWS = [b"row %d" % number for number in range(8)]
HOME = "a"


@pytest.fixture
def world() -> World:
    return World(["a", "b"])


def stop_before(kind: type, broker: str) -> Any:
    """The writer dies before it asks that of a broker."""

    def happen(name: str, request: Any, after: bool) -> None:
        if isinstance(request, kind) and name == broker and not after:
            raise ConnectionLost(name, "the writer died")

    return happen


async def decided_only_at_home(world: World) -> None:
    await world.clock.advance(1)  # both have run for a while
    world.hook = stop_before(CommitStages, "b")
    with pytest.raises(ConnectionLost, match="writer died"):
        await world.write(0, ROWS)
    world.hook = None
    assert 0 < len(world.shown()) < len(ROWS)


async def test_what_home_decided_shows_without_its_writer(world: World) -> None:
    await decided_only_at_home(world)
    await world.tend()
    assert len(world.shown()) < len(ROWS), "its writer is given some time"
    await world.clock.advance(WAIT_MS)
    await world.tend()
    assert sorted(world.shown()) == ROWS
    told = await world.running[HOME].commit({})
    assert (told.duplicate, told.outcome.plan) == (True, None), "home knows that it is done"
    assert await world.write(0, ROWS) is False
    assert sorted(world.shown()) == ROWS


async def test_a_broker_that_was_away_for_long_shows_its_share_when_it_is_back(
    world: World,
) -> None:
    await decided_only_at_home(world)
    world.kill("b")
    await world.clock.advance(100 * EXPIRY_MS)
    await world.tend()
    world.start("b")
    await world.tend()
    assert sorted(world.shown()) == ROWS


async def test_what_is_prepared_stays_while_home_is_out_of_reach(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await decided_only_at_home(world)
    world.kill(HOME)
    for _ in range(3):
        await world.clock.advance(10 * EXPIRY_MS)
        await world.tend()
    assert caplog.text.count("what is prepared of it is kept") == 1
    world.start(HOME)
    await world.tend()
    assert sorted(world.shown()) == ROWS


async def test_a_home_that_does_not_answer_is_asked_once_a_round(world: World) -> None:
    world.hook = stop_before(CommitStages, HOME)
    for batch in range(5):
        with pytest.raises(ConnectionLost):
            await world.write(batch, ROWS)
    asked: list[str] = []

    def note(name: str, request: Any, after: bool) -> None:
        if isinstance(request, AskStages) and not after:
            asked.append(name)

    world.kill(HOME)
    world.hook = note
    await world.clock.advance(EXPIRY_MS)
    await world.tend()
    assert asked == [HOME]
    world.start(HOME)
    await world.tend()
    assert len(asked) == 6
    assert not len(world.running["b"].staging.book.prepared)


async def test_what_is_never_decided_is_let_go_and_no_late_commit_counts_on_it(
    world: World,
) -> None:
    at_b = [row for row in ROWS if checksum(TOPIC, 0, row, b"") % 2]
    requests: list[CommitStages] = []

    def late(name: str, request: Any, after: bool) -> None:
        if isinstance(request, CommitStages) and name == HOME and not after:
            requests.append(request)
            raise ConnectionLost(name, "held up")

    world.hook = late
    with pytest.raises(ConnectionLost):
        await world.write(0, at_b)
    world.hook = None
    await world.clock.advance(EXPIRY_MS + 1)
    await world.tend()
    assert not len(world.running["b"].staging.book.stages)
    world.kill(HOME)
    world.start(HOME)
    [request] = requests
    with pytest.raises(RequestRejected, match="let go of its share"):
        await world.call("a:1", request, 1000)
    assert world.shown() == []
    assert await world.write(0, at_b) is True
    assert sorted(world.shown()) == at_b


async def test_what_was_decided_for_others_only_is_dropped(world: World) -> None:
    world.hook = stop_before(CommitStages, HOME)
    with pytest.raises(ConnectionLost):
        await world.write(0, ROWS)
    world.hook = None
    assert len(world.running["b"].staging.book.prepared) == 1
    await world.call("a:1", CommitStages(producer_group="g", application="app", batch=0), 1000)
    await world.clock.advance(WAIT_MS)
    await world.tend()
    assert not len(world.running["b"].staging.book.stages)
    assert world.shown() == []


async def test_a_share_that_is_gone_for_good_is_staged_again(world: World) -> None:
    await decided_only_at_home(world)
    world.lose("b")
    world.start("b")
    assert await world.write(0, ROWS) is False
    assert sorted(world.shown()) == ROWS
    await world.clock.advance(3 * EXPIRY_MS)
    await world.tend()
    assert sorted(world.shown()) == ROWS


async def test_a_home_that_lost_everything_decides_anew_and_the_others_do_not(
    world: World,
) -> None:
    assert await world.write(0, ROWS) is True
    at_b = world.running["b"].bodies()
    world.lose(HOME)
    world.start(HOME)
    assert await world.write(0, ROWS) is True
    assert world.running["b"].bodies() == at_b
    assert sorted(world.shown()) == ROWS


async def test_a_home_that_has_forgotten_a_batch_does_not_show_a_part_of_another(
    world: World,
) -> None:
    assert await world.write(0, ROWS) is True
    home = world.running[HOME].staging
    assert home.book.ledger.forget_unused(world.clock.monotonic_ms() + 1) == ["app"]
    with pytest.raises(BatchMismatch, match="committed before with other messages"):
        await world.write(0, [b"other " + row for row in ROWS])
    assert sorted(world.shown()) == ROWS
    await world.clock.advance(3 * EXPIRY_MS)
    await world.tend()
    assert sorted(world.shown()) == ROWS


async def test_where_another_home_was_chosen_that_one_is_asked(world: World) -> None:
    await decided_only_at_home(world)
    world.lose(HOME)
    del world.disks[HOME]
    world.kept[home_key("app")] = "b"
    await world.clock.advance(EXPIRY_MS)
    await world.tend()
    assert world.running["b"].bodies() == []
    assert not len(world.running["b"].staging.book.stages), "it is home itself, and decided nothing"


@pytest.mark.parametrize("kind", [PrepareStages, CommitStages, SettleStages, AskStages])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("broker", ["a", "b"])
async def test_a_broker_may_be_killed_at_any_step(
    world: World, kind: type, after: bool, broker: str
) -> None:
    killed = []

    def happen(name: str, request: Any, is_after: bool) -> None:
        if isinstance(request, kind) and name == broker and is_after is after and not killed:
            killed.append(name)
            world.kill(name)

    world.hook = happen
    for _ in range(4):
        try:
            await world.write(0, ROWS)
        except RocketPipeError:
            pass
        else:
            break
        await world.clock.advance(2 * EXPIRY_MS)
        await world.tend()
        for name in killed:
            if name not in world.running:
                world.start(name)
    for name in killed:
        if name not in world.running:
            world.start(name)
    await world.clock.advance(2 * EXPIRY_MS)
    await world.tend()
    assert sorted(world.shown()) == ROWS
