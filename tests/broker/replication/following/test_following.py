"""Following a leader over lost connections, silences, lies, and to its end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator

import pytest
from tests.broker.support.follower_parts import Follower, LeaderLog
from tests.broker.support.scripted_leader import LeaderEnd, ScriptedLeader, scripted_leader
from tests.ports import lasting_ports
from tests.waiting import until

from rocketpipe.broker.replication.frames import Dialect
from rocketpipe.errors import StoreError
from rocketpipe.store.errors import StoreClosed

LOG = LeaderLog(1, 3, 1, 1, 4, 2)
END = LOG.end
TWO, THREE = LOG.ends[2:4]


@pytest.fixture
async def leader() -> AsyncIterator[ScriptedLeader]:
    async with scripted_leader() as leader:
        yield leader


@pytest.fixture(params=list(Dialect))
async def follower(
    leader: ScriptedLeader, request: pytest.FixtureRequest
) -> AsyncIterator[Follower]:
    """A follower in either dialect."""
    async with Follower(leader.address, request.param).life() as follower:
        yield follower


async def greet(leader: ScriptedLeader, number: int = 0) -> LeaderEnd:
    end = await leader.connection(number)
    if end.handshake is not None:
        end.hello(END, 1, (1, 0))
    await until(lambda: end.reports)
    return end


async def went_on(end: LeaderEnd, at: int) -> bool:
    """Whether a follower goes on from there; behind a plain master it compares what is before."""
    (begin,) = end.reports
    if end.side.dialect is Dialect.PLAIN:
        assert 0 < begin < at
        end.transfer(begin, LOG.bytes[begin:at])
        await end.reported(at)
        return True
    return begin == at


def sleeps(follower: Follower, wait_ms: int) -> bool:
    """Whether it waits for so long from now on."""
    due_ms = follower.clock.monotonic_ms() + wait_ms
    return any(due == due_ms and not wake.done() for due, _, wake in follower.clock._sleepers)


async def again_after(
    follower: Follower, leader: ScriptedLeader, number: int, wait_ms: int
) -> None:
    """See that the next connection comes after so long, and not before."""
    await until(lambda: not follower.following.status().connected and sleeps(follower, wait_ms))
    await follower.clock.advance(wait_ms - 1)
    assert len(leader.ends) == number
    await follower.clock.advance(1)
    await until(lambda: len(leader.ends) == number + 1)


async def test_a_lost_connection_is_made_again_where_the_log_ends(
    follower: Follower, leader: ScriptedLeader
) -> None:
    end = await greet(leader)
    end.transfer(0, LOG.bytes[: THREE - 1])
    await end.reported(TWO)
    end.close()
    await again_after(follower, leader, 1, 50)
    end = await greet(leader, 1)
    assert await went_on(end, TWO)
    end.transfer(TWO, LOG.bytes[TWO:], confirmed=END)
    await end.reported(END)
    assert follower.log == LOG.bytes
    assert follower.readable == LOG.records


async def test_a_silent_leader_is_given_up(follower: Follower, leader: ScriptedLeader) -> None:
    end = await greet(leader)
    end.transfer(0, LOG.bytes[:TWO])
    await end.reported(TWO)
    await follower.clock.advance(follower.config.silence_ms - 1000)
    assert not end.lost
    assert end.reports.count(TWO) >= 3  # heartbeats of ours, meanwhile
    await follower.clock.advance(1000)
    await until(lambda: end.lost)
    await until(lambda: "silent for" in str(follower.following.status().refused))
    await follower.clock.advance(1000)
    assert await went_on(await greet(leader, 1), TWO)


async def test_a_leader_that_says_nothing_at_all_is_given_up(leader: ScriptedLeader) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await leader.connection(0)
        await follower.clock.advance(follower.config.silence_ms)
        await until(lambda: end.lost)
        assert end.reports == []


async def test_half_a_frame_and_then_nothing(follower: Follower, leader: ScriptedLeader) -> None:
    end = await greet(leader)
    head = end.side.transfer_head(0, END, 1, 0, END)
    end.send(head + LOG.bytes[:THREE])
    await end.reported(THREE)
    await follower.clock.advance(follower.config.silence_ms)
    await until(lambda: end.lost)
    await until(lambda: follower.following.status().refused)
    await follower.clock.advance(1000)
    end = await greet(leader, 1)
    assert await went_on(end, THREE)
    assert follower.log == LOG.bytes[:THREE]


async def test_a_head_that_comes_by_single_bytes_is_a_silence(leader: ScriptedLeader) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await leader.connection(0)
        for byte in struct.pack(">ii", 1, 0):
            end.send(bytes([byte]))
            await follower.clock.advance(follower.config.silence_ms // 4)
            await asyncio.sleep(0.001)
        await until(lambda: end.lost)


async def test_heartbeats_keep_a_connection(follower: Follower, leader: ScriptedLeader) -> None:
    end = await greet(leader)
    end.transfer(0, LOG.bytes)
    await end.reported(END)
    for _ in range(10):
        await follower.clock.advance(follower.config.silence_ms // 2)
        before = len(end.reports)
        end.beat(END)
        await until(lambda: len(end.reports) > before)  # noqa: B023 - waited for in its turn
    assert len(leader.ends) == 1
    assert follower.following.status().connected


async def test_a_heartbeat_elsewhere_is_a_lie(follower: Follower, leader: ScriptedLeader) -> None:
    end = await greet(leader)
    end.transfer(0, LOG.bytes[:TWO])
    await end.reported(TWO)
    end.beat(TWO + 1)
    await until(lambda: end.lost)
    await until(lambda: f"where {TWO} is next" in str(follower.following.status().refused))
    await follower.clock.advance(1000)
    assert await went_on(await greet(leader, 1), TWO)


@pytest.mark.parametrize("offset", [TWO - 1, TWO + 100, 0])
async def test_bytes_from_elsewhere_are_a_lie(
    follower: Follower, leader: ScriptedLeader, offset: int
) -> None:
    end = await greet(leader)
    end.transfer(0, LOG.bytes[:TWO])
    await end.reported(TWO)
    end.transfer(offset, LOG.bytes[offset:])
    await until(lambda: end.lost)
    assert follower.log == LOG.bytes[:TWO]


async def test_garbage_is_left_alone_for_longer_each_time(
    follower: Follower, leader: ScriptedLeader, caplog: pytest.LogCaptureFixture
) -> None:
    for number, wait_ms in enumerate([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]):
        end = await leader.connection(number)
        end.send(b"\xff" * 100)
        await again_after(follower, leader, number + 1, wait_ms)
    assert follower.end == 0
    assert caplog.text.count("cannot follow") == 1
    end = await greet(leader, 7)
    end.transfer(0, LOG.bytes)
    await end.reported(END)
    end.close()
    await again_after(follower, leader, 8, 50)  # from the beginning


async def test_a_bad_record_is_named_once_and_asked_for_again(
    follower: Follower, leader: ScriptedLeader, caplog: pytest.LogCaptureFixture
) -> None:
    bad = bytearray(LOG.bytes)
    bad[LOG.ends[4] - 60] ^= 1
    for number, wait_ms in enumerate([1000, 2000, 4000, 8000]):
        end = await greet(leader, number)
        if number == 0:
            end.transfer(0, LOG.bytes[:TWO])
            await end.reported(TWO)
        if follower.end < THREE:
            end.transfer(TWO, LOG.bytes[TWO:THREE])
            await end.reported(THREE)
        end.transfer(THREE, bytes(bad[THREE:]))
        await until(lambda: leader.ends[-1].lost)
        assert follower.log == LOG.bytes[:THREE]
        await until(lambda: f"record at {THREE}" in str(follower.following.status().refused))
        await again_after(follower, leader, number + 1, wait_ms)
    named = [line for line in caplog.messages if f"record at {THREE}" in line]
    assert len(named) == 1
    end = await greet(leader, 4)
    end.transfer(THREE, LOG.bytes[THREE:])
    await end.reported(END)


async def test_a_leader_that_is_not_there_is_tried_every_few_seconds() -> None:
    [port] = lasting_ports(1)
    async with Follower(f"127.0.0.1:{port}", Dialect.EPOCHS).life() as follower:
        for wait_ms in (50, 100, 200, 400, 800, 1600, 3200, 5000, 5000):
            await until(lambda: sleeps(follower, wait_ms))  # noqa: B023 - waited for in its turn
            assert "Connect call failed" in str(follower.following.status().refused)
            await follower.clock.advance(wait_ms)
        async with scripted_leader(port) as leader:
            await until(lambda: sleeps(follower, 5000))
            await follower.clock.advance(5000)
            await greet(leader)
            assert follower.following.status().connected


async def test_a_connection_that_does_not_come_about_is_given_up() -> None:
    """A port that takes no connections: its backlog is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        host, port = listening.getsockname()
        waiting = []
        try:
            for _ in range(4):
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex((host, port))
                waiting.append(each)
            async with Follower(f"{host}:{port}", Dialect.EPOCHS).life() as follower:
                await until(lambda: sleeps(follower, 5000))
                await follower.clock.advance(5000)
                await until(
                    lambda: "no connection within" in str(follower.following.status().refused)
                )
        finally:
            for each in waiting:
                each.close()


# The end


async def test_after_close_nothing_is_appended_or_reported(
    follower: Follower, leader: ScriptedLeader
) -> None:
    end = await greet(leader)
    end.transfer(0, LOG.bytes[:TWO])
    await end.reported(TWO)
    end.transfer(TWO, LOG.bytes[TWO:])
    reports = len(end.reports)
    # The bytes are in the socket, and the loop had no turn to read them.
    follower.following.close()
    await until(lambda: end.lost)
    assert follower.end == TWO
    assert len(end.reports) == reports
    await follower.task
    await follower.clock.advance(60_000)
    assert len(leader.ends) == 1


async def test_closing_while_it_waits_ends_it(leader: ScriptedLeader) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await leader.connection(0)
        end.send(b"garbage" * 10)
        await until(lambda: follower.following.status().refused)
        follower.following.close()
        await follower.task
        assert len(leader.ends) == 1


async def test_it_is_reported_before_it_is_shown_and_nothing_once_that_has_closed_it(
    leader: ScriptedLeader,
) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await greet(leader)
        incoming = follower.following._incoming
        assert incoming is not None
        reported: list[int] = []

        def moved() -> None:
            reported.append(incoming._reported)
            follower.following.close()
            incoming._reported = -1

        incoming._moved = moved
        end.transfer(0, LOG.bytes, confirmed=END)
        await until(lambda: end.lost)
        assert reported == [END]
        assert incoming._reported == -1


async def test_a_cancelled_run_closes(follower: Follower, leader: ScriptedLeader) -> None:
    end = await greet(leader)
    follower.task.cancel()
    await until(lambda: end.lost)
    await until(lambda: follower.task.done())
    assert follower.task.cancelled()


async def test_a_store_that_was_closed_ends_it(follower: Follower, leader: ScriptedLeader) -> None:
    end = await greet(leader)
    follower.store.close()
    end.transfer(0, LOG.bytes)
    with pytest.raises(StoreClosed):
        await follower.task


async def test_what_a_move_raises_comes_out(leader: ScriptedLeader) -> None:
    async with Follower(leader.address, Dialect.EPOCHS).life() as follower:
        end = await greet(leader)

        def fail() -> None:
            raise StoreError("no")

        follower.following._incoming._moved = fail  # type: ignore[union-attr]
        end.transfer(0, LOG.bytes, confirmed=END)
        with pytest.raises(StoreError, match="no"):
            await follower.task


async def test_the_status_says_how_it_goes(follower: Follower, leader: ScriptedLeader) -> None:
    status = follower.following.status()
    assert (status.connected, status.bytes, status.master_ha) == (False, 0, leader.address)
    end = await greet(leader)
    end.transfer(0, LOG.bytes[:TWO], confirmed=TWO)
    await end.reported(TWO)
    status = follower.following.status()
    assert status.connected
    assert status.bytes == TWO
    assert status.confirmed == TWO
    assert status.leader_end == (END if end.handshake else TWO)
    assert status.last_read_ms == status.last_write_ms == follower.clock.now_ms()
    assert status.refused is None


async def test_who_is_not_elected_says_that_it_learns(leader: ScriptedLeader) -> None:
    follower = Follower(leader.address, Dialect.EPOCHS)
    follower.elected = False
    async with follower.life():
        end = await leader.connection(0)
        assert end.handshake is not None
        assert end.handshake.learner
