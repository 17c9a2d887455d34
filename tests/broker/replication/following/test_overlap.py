"""What two logs are said to share is compared before anything is taken in, or cut."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.broker.support.follower_parts import SEGMENT_BYTES, Follower, LeaderLog
from tests.broker.support.scripted_leader import LeaderEnd, ScriptedLeader, scripted_leader
from tests.waiting import until

from rocketpipe.broker.replication.following import overlap
from rocketpipe.broker.replication.following.agreement import CutNeeded, NothingInCommon
from rocketpipe.broker.replication.following.overlap import Overlap
from rocketpipe.broker.replication.frames import Dialect, HaProtocolError, Transfer

LOG = LeaderLog(1, 3, 1, 1, 4, 2)
END = LOG.end
FIVE = LOG.ends[5]
#: As long, and of other messages.
OTHER = LeaderLog(1, 3, 1, 1, 4, 2, begin=500)
assert OTHER.ends == LOG.ends


@pytest.fixture
async def leader() -> AsyncIterator[ScriptedLeader]:
    async with scripted_leader() as leader:
        yield leader


def fixed(leader: ScriptedLeader, *epochs: tuple[int, int], end: int = FIVE) -> Follower:
    """A slave that has some of the log."""
    follower = Follower(leader.address, Dialect.EPOCHS)
    follower.elected = False
    follower.open()
    follower.fill(LOG, end, *epochs)
    return follower


async def reported(leader: ScriptedLeader, log_end: int, *entries: tuple[int, int]) -> LeaderEnd:
    end = await leader.connection(0)
    end.hello(log_end, entries[-1][0], *entries)
    await until(lambda: end.reports)
    return end


async def test_a_master_of_the_same_epochs_and_another_log_is_refused(
    leader: ScriptedLeader,
) -> None:
    follower = fixed(leader, (1, 0))
    async with follower.life():
        end = await reported(leader, END, (1, 0))
        await end.ship(OTHER.bytes, end.reports[0], 1 << 20, confirmed=END)
        with pytest.raises(NothingInCommon, match="differ"):
            await follower.task
        assert follower.log == LOG.bytes[:FIVE]
        assert not follower.joined.epoch  # nor is it kept from following the right one


@pytest.mark.parametrize("step", [97, 1 << 20])
async def test_the_right_one_is_followed(leader: ScriptedLeader, step: int) -> None:
    follower = fixed(leader, (1, 0))
    async with follower.life():
        end = await reported(leader, END, (1, 0))
        await end.ship(LOG.bytes, end.reports[0], step, confirmed=END)
        await end.reported(END)
        assert follower.log == LOG.bytes
        assert end.reports == sorted(end.reports)
        assert follower.joined.epoch == 1


async def test_an_emptied_master_has_nothing_cut(leader: ScriptedLeader) -> None:
    """It began again with the number that it had begun with the first time."""
    follower = fixed(leader, (1, 0))
    short = OTHER.ends[3]
    async with follower.life():
        end = await reported(leader, short, (1, 0))
        end.transfer(end.reports[0], OTHER.bytes[end.reports[0] : short], confirmed=short)
        with pytest.raises(NothingInCommon, match="differ"):
            await follower.task
    assert follower.end == FIVE


async def test_one_that_is_empty_has_nothing_cut_either(leader: ScriptedLeader) -> None:
    follower = fixed(leader, (1, 0))
    async with follower.life():
        end = await leader.connection(0)
        end.hello(0, 1, (1, 0))
        with pytest.raises(NothingInCommon, match="anew"):
            await follower.task
    assert follower.end == FIVE


async def test_a_tail_is_cut_once_what_is_before_it_was_compared(leader: ScriptedLeader) -> None:
    follower = fixed(leader, (1, 0), (2, FIVE), end=END)
    async with follower.life():
        end = await reported(leader, END + 100, (1, 0), (3, FIVE))
        assert not follower.task.done()
        begin = end.reports[0]
        end.transfer(begin, LOG.bytes[begin:FIVE], confirmed=FIVE)
        with pytest.raises(CutNeeded):
            await follower.task
        assert follower.joined.epoch == 3


async def test_a_store_that_comes_into_an_elected_group_is_compared_once(
    leader: ScriptedLeader,
) -> None:
    follower = fixed(leader, (1, 0))
    follower.elected = True
    async with follower.life():
        end = await reported(leader, END, (1, 0))
        assert end.reports[0] < FIVE
        await end.ship(LOG.bytes, end.reports[0], 1 << 20, confirmed=END)
        await end.reported(END)
        end.close()
        await until(lambda: not follower.following.status().connected)
        await follower.clock.advance(1000)
        again = await leader.connection(1)
        again.hello(END, 1, (1, 0))
        await until(lambda: again.reports)
        assert again.reports == [END]


def opened(end: int) -> Follower:
    follower = Follower("nowhere:1", Dialect.PLAIN)
    follower.open()
    follower.fill(LOG, end, (1, 0))
    return follower


def test_a_plain_master_is_never_asked_for_0_or_for_another_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Overlap(opened(FIVE).store, 0, one_file=True).start == 0
    assert Overlap(opened(LOG.ends[2]).store, LOG.ends[2], one_file=True).start == 1
    store = opened(END).store
    assert Overlap(store, SEGMENT_BYTES, one_file=True).start == SEGMENT_BYTES
    assert Overlap(store, SEGMENT_BYTES + 10, one_file=True).start == SEGMENT_BYTES
    assert Overlap(store, SEGMENT_BYTES + 10, one_file=False).start == 0
    monkeypatch.setattr(overlap, "COMPARED_BYTES", 100)
    assert Overlap(store, END, one_file=False).start == END - 100


def test_where_the_leader_s_log_begins_later_what_it_has_is_compared() -> None:
    store = opened(END).store
    assert Overlap(store, END, one_file=False).compare(Transfer(END + 1, b"x")) is not None
    later = Overlap(store, END, one_file=False)
    assert later.compare(Transfer(FIVE, b"")) is None
    rest = later.compare(Transfer(FIVE, LOG.bytes[FIVE:] + b"more"))
    assert rest is not None
    assert (rest.offset, rest.data) == (END, b"more")


@pytest.mark.parametrize("offset", [FIVE + 1, 0, END])
def test_bytes_from_elsewhere_are_a_lie(offset: int) -> None:
    compared = Overlap(opened(END).store, END, one_file=False)
    compared.compare(Transfer(0, LOG.bytes[:FIVE]))
    with pytest.raises(HaProtocolError, match=f"where {FIVE} is next"):
        compared.compare(Transfer(offset, b""))
