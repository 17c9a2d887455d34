"""What is acknowledged, who is answered what, and whose word does not count."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest
from tests.broker.support.leader_parts import LeaderParts, elected, fixed, leading
from tests.broker.support.scripted_follower import connected, following
from tests.waiting import until

from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.replication.frames import Dialect
from rocketpipe.broker.replication.leading.followers import SILENT_MS, StillThere
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.testing.clock import ManualClock

OK, NO_SLAVE, LATE = 0, 11, 12


class Answers:
    """What senders were told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []

    def __call__(self, code: int, remark: str) -> None:
        self.told.append((code, remark))

    @property
    def codes(self) -> list[int]:
        return [code for code, _ in self.told]


def asked(parts: LeaderParts, count: int = 1) -> Answers:
    answers = Answers()
    parts.followers.when_acknowledged(parts.append(count), answers)
    return answers


# Fixed roles


async def test_a_send_is_answered_when_the_slave_has_it(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts, following(parts.address) as slave:
        await parts.heard(1)
        answers = asked(parts)
        await until(lambda: slave.end == parts.end)
        assert (answers.told, parts.acknowledged, parts.followers.waiting) == ([], 0, 1)
        slave.report(slave.end)
        await parts.reached(parts.end)
        assert (answers.told, parts.followers.waiting) == ([(OK, "")], 0)
        assert parts.store.max_offset("t", 0) == 1


@pytest.mark.parametrize("number", [None, 2])
async def test_all_slaves_that_are_in_sync_have_to_have_it(
    tmp_path: Path, number: int | None
) -> None:
    async with (
        leading(tmp_path, fixed()) as parts,
        following(parts.address) as one,
        following(parts.address, number) as two,
    ):
        await parts.heard(2)
        answers = asked(parts)
        await until(lambda: one.end == two.end == parts.end)
        one.report(parts.end)
        await until(lambda: max(each.end for each in parts.followers.status()) == parts.end)
        assert answers.told == []
        two.report(parts.end)
        await parts.reached(parts.end)
        assert answers.codes == [OK]


async def test_who_is_far_behind_does_not_count(tmp_path: Path) -> None:
    config = fixed(max_gap_bytes=10_000, catch_up_bytes=1 << 10)
    async with leading(tmp_path, config) as parts:
        parts.append(100)
        async with following(parts.address, 2) as far, following(parts.address, 3, parts.end):
            far.reports = True
            await parts.heard(2)
            assert [each.in_sync for each in parts.followers.status()] == [False, True]
            assert parts.acknowledged == parts.end
            assert parts.followers.refusal() is None


async def test_without_enough_copies_nothing_is_taken(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts:
        refusal = parts.followers.refusal()
        assert refusal is not None
        assert refusal[0] == ResponseCode.SYSTEM_ERROR
        assert refusal[1].startswith("in-sync replicas not enough: 1 of minInSyncReplicas 2")
        async with following(parts.address):
            await parts.heard(1)
            assert parts.followers.refusal() is None
        await until(lambda: parts.followers.refusal() is not None)
        parts.followers.reconfigure(fixed(min_in_sync=1))
        assert parts.followers.refusal() is None


async def test_if_one_copy_is_enough_it_is_said_that_there_is_no_slave(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed(min_in_sync=1)) as parts:
        assert asked(parts).told == [(NO_SLAVE, "")]
        assert parts.acknowledged == parts.end
        async with following(parts.address, 2, parts.end):
            await parts.heard(1)
            answers = asked(parts)
            assert answers.told == []
        await parts.reached(parts.end)
        assert answers.codes == [NO_SLAVE]


async def test_a_slave_that_takes_too_long_is_an_answer(tmp_path: Path) -> None:
    clock = ManualClock()
    async with leading(tmp_path, fixed(), clock) as parts, following(parts.address, 2) as slave:
        await parts.heard(1)
        answers = asked(parts)
        waiting = asyncio.ensure_future(parts.followers.acknowledged(parts.append()))
        await clock.advance(0)
        await clock.advance(parts.config.slave_timeout_ms - 1)
        assert answers.told == []
        await clock.advance(20)
        assert answers.codes == [LATE]
        assert await waiting == LATE
        assert parts.followers.late is None
        await until(lambda: slave.end == parts.end)
        slave.report(parts.end)
        await parts.reached(parts.end)
        assert answers.codes == [LATE], "answered twice"


async def test_without_waiting_nothing_is_counted(tmp_path: Path) -> None:
    config = fixed(role=BrokerRole.ASYNC_MASTER)
    async with leading(tmp_path, config) as parts, following(parts.address, 2) as slave:
        slave.reports = True
        parts.append(10)
        await until(lambda: slave.end == parts.end)
        assert parts.acknowledged is None
        assert parts.store.positions.confirmed == parts.end
        assert slave.frames[-1].confirmed == parts.end


async def test_who_waited_for_less_is_answered_first(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts, following(parts.address, 2) as slave:
        await parts.heard(1)
        first, second = parts.append(), parts.append()
        answers = [Answers(), Answers()]
        parts.followers.when_acknowledged(second, answers[1])
        parts.followers.when_acknowledged(first, answers[0])
        await until(lambda: slave.end == second)
        slave.report(first)
        await parts.reached(first)
        assert [each.codes for each in answers] == [[OK], []]


async def test_an_answer_that_fails_is_not_the_others_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(code: int, remark: str) -> None:
        raise OSError("gone")

    async with leading(tmp_path, fixed()) as parts, following(parts.address, 2) as slave:
        slave.reports = True
        await parts.heard(1)
        parts.followers.when_acknowledged(parts.append(), broken)
        answers = asked(parts)
        await parts.reached(parts.end)
        assert answers.codes == [OK]
        assert "a send was not answered" in caplog.text


# The end of a leadership


async def test_after_its_end_nothing_counts(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts, following(parts.address, 2) as slave:
        await parts.heard(1)
        answers = asked(parts)
        waiting = asyncio.ensure_future(parts.followers.acknowledged(parts.end))
        await until(lambda: slave.end == parts.end)
        slave.report(parts.end)  # on its way
        parts.followers.fail(14, "leads no longer")
        assert answers.told == [(14, "leads no longer")]
        with pytest.raises(RequestRejected, match="leads no longer"):
            await waiting
        await slave.is_closed()
        assert parts.acknowledged == 0
        assert asked(parts).told == [(14, "leads no longer")]
        assert parts.followers.refusal() == (14, "leads no longer")
        assert parts.followers.status() == []
        assert parts.store.on_append is None
        assert parts.pins.lowest() is None
        async with await connected(parts.address, Dialect.EPOCHS) as late:
            await late.is_closed()


async def test_another_leadership_counts_anew(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts, following(parts.address, 2) as slave:
        slave.reports = True
        await parts.heard(1)
        await parts.reached(parts.append())
        seen = parts.end
        parts.followers.fail(14, "over")
        parts.lead(2)
        answers = asked(parts)
        assert parts.acknowledged == seen
        async with following(parts.address, 2, seen) as again:
            again.reports = True
            await parts.reached(parts.end)
            assert answers.codes == [OK]
            assert again.hello is not None
            assert again.hello.epoch == 2


# Whose word does not count


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        struct.pack(">q", 1 << 40),
        struct.pack(">q", -1),
        b"\xff" * 4096,
        struct.pack(">ihhq", 1, 0, 0, -7),
        struct.pack(">ihhq", 1, 0, 0, 2) + struct.pack(">iq", 9, 0),
        struct.pack(">ihhq", 1, 0, 0, 2) + struct.pack(">iq", 2, 1 << 40),
        struct.pack(">ihhq", 1, 0, 0, 1) + struct.pack(">iq", 2, 0),
    ],
)
async def test_garbage_acknowledges_nothing(tmp_path: Path, said: bytes) -> None:
    async with leading(tmp_path, fixed()) as parts:
        answers = asked(parts)
        async with await connected(parts.address, Dialect.PLAIN) as stray:
            stray.listens = False
            stray.say(said)
            await stray.is_closed()
        assert (answers.told, parts.acknowledged) == ([], 0)
        assert sum(parts.followers.refusals.values()) == 1
        assert parts.followers.refusal() is not None


async def test_a_stray_report_neither_counts_nor_holds_up(tmp_path: Path) -> None:
    """Eight bytes that happen to be an offset of the log are no slave."""
    async with leading(tmp_path, fixed()) as parts:
        middle = parts.append(5)
        parts.append(5)
        async with (
            following(parts.address, end=middle) as stray,
            following(parts.address, end=0) as zeros,
            following(parts.address, 2, parts.end),
        ):
            await parts.heard(3)
            assert parts.followers.refusal() is None
            assert parts.acknowledged == parts.end
            await until(lambda: stray.end == zeros.end == parts.end)
            assert [each.in_sync for each in parts.followers.status()] == [False, False, True]
            stray.report(stray.end)
            await until(lambda: parts.followers.status()[0].in_sync)


async def test_what_was_not_sent_cannot_be_reported(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts:
        for _ in range(3):
            parts.append(1, b"x" * (400 << 10))
        async with following(parts.address) as liar:
            await parts.heard(1)
            liar.report(parts.end)
            await liar.is_closed()
        assert parts.acknowledged == 0


async def test_reports_do_not_go_back_on_one_connection(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts, following(parts.address, 2) as slave:
        parts.append()
        await until(lambda: slave.end == parts.end)
        slave.report(parts.end)
        await parts.reached(parts.end)
        slave.report(0)
        await slave.is_closed()
        assert parts.acknowledged == parts.end


async def test_one_replica_has_one_connection(tmp_path: Path) -> None:
    clock = ManualClock()
    async with leading(tmp_path, fixed(), clock) as parts, following(parts.address, 2) as older:
        await parts.heard(1)
        async with following(parts.address, 2) as newer:
            await newer.is_closed()
        assert not older.closed
        await clock.advance(SILENT_MS)
        async with following(parts.address, 2) as newest:
            await older.is_closed()
            await parts.heard(1)
            assert not newest.closed


async def test_strangers_are_not_let_into_an_elected_group(tmp_path: Path) -> None:
    given = {"in_sync": {1, 2}, "members": {1, 2}}
    async with leading(tmp_path, elected(), **given) as parts:
        async with following(parts.address, 7) as unknown:
            await unknown.is_closed()
        async with following(parts.address) as plain:
            await plain.is_closed()
        assert parts.followers.refusals == {"epochs": 1, "plain": 1}
        async with following(parts.address, 2):
            await parts.heard(1)


async def test_plain_slaves_may_listen_in_but_do_not_count(tmp_path: Path) -> None:
    given = {"in_sync": {1, 2}, "members": {1, 2}}
    async with (
        leading(tmp_path, elected(allow_plain=True), **given) as parts,
        following(parts.address) as plain,
    ):
        plain.reports = True
        parts.append()
        await until(lambda: plain.end == parts.end)
        await until(lambda: parts.followers.status()[0].end == parts.end)
        assert parts.acknowledged == 0
        assert not parts.followers.status()[0].in_sync


async def test_a_slave_that_cannot_follow_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with leading(tmp_path, fixed()) as parts:
        for _ in range(3):
            async with following(parts.address, end=1 << 30) as lost:
                await lost.is_closed()
        assert parts.followers.refusals == {"plain": 3}
        assert caplog.text.count("it reports 1073741824, and the log ends at 0") == 1


async def test_what_a_follower_needs_is_kept_for_some_time(tmp_path: Path) -> None:
    clock = ManualClock()
    config = fixed(retain_ms=5_000, heartbeat_ms=60_000, silence_ms=90_000)
    async with leading(tmp_path, config, clock) as parts:
        middle = parts.append(5)
        async with following(parts.address, 2) as slave:
            await parts.heard(1)
            assert parts.pins.lowest() is not None
            slave.report(middle)
            await until(lambda: (pin := parts.pins.lowest()) and pin.offset == middle)
        await parts.heard(0)
        await clock.advance(4_000)
        assert parts.pins.lowest() is not None
        await clock.advance(2_000)
        assert parts.pins.lowest() is None


async def test_the_status_tells_of_each(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts:
        parts.append()
        async with following(parts.address, 2, parts.end):
            await parts.heard(1)
            (status,) = parts.followers.status()
            assert (status.id, status.dialect, status.end, status.lag) == (
                2,
                Dialect.EPOCHS.value,
                parts.end,
                0,
            )
            assert (status.in_sync, status.transfer_from) == (True, parts.end)
            assert parts.followers.caught_up({1, 2, 3}) == 2
            assert parts.followers.caught_up({3}) is None
            parts.append()
            assert parts.followers.caught_up({2}) is None


async def test_it_waits_for_no_more_than_it_has(tmp_path: Path) -> None:
    async with leading(tmp_path, fixed()) as parts, following(parts.address, 2):
        await parts.heard(1)
        assert await parts.followers.acknowledged(LogOffset(0)) == OK


async def test_nothing_is_kept_for_who_is_forgotten_and_nobody_is_who_is_there(
    tmp_path: Path,
) -> None:
    async with leading(tmp_path, fixed()) as parts:
        parts.append()
        async with following(parts.address, 2, parts.end):
            await parts.heard(1)
            for there in (1, 2):
                with pytest.raises(StillThere):
                    parts.followers.forget(there)
        await until(lambda: not parts.followers.status())
        assert parts.pins.lowest() is not None
        parts.followers.forget(2)
        assert parts.pins.lowest() is None
        parts.followers.forget(2)
