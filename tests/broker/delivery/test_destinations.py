"""What waits for a topic goes with it when it is deleted; what nobody deleted is never unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import put, sent
from tests.broker.support.transacting import TransactingParts

from rocketpipe.broker.features.timers.timers import Timers
from rocketpipe.broker.handlers.topics import TopicHandlers
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.roles.duties import _forget_topic as forget_topic
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.deletions import queues_in_use
from rocketpipe.model.flags import Transaction
from rocketpipe.record.codec import view_records
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing.clock import ManualClock

HOUR_MS = 3_600_000
WAYS = ["DELAY\x015", "TIMER_DELAY_MS\x0160000"]


class DeletingParts(TransactingParts):
    """What has messages wait for a topic, and what deletes it."""

    def __init__(self, root: Path, clock: ManualClock, **changes: Any) -> None:
        super().__init__(root, clock, **changes)
        self.tables.finish_deletions(self.store)
        self.tables.adopt(queues_in_use(self.store))
        self.timers = Timers(self.store, self.intake, clock, self.destinations)
        registrar = Registrar(self.config, "127.0.0.1:1", self.tables.topics, Caller(), clock)
        self._topics = TopicHandlers(
            self.tables.topics,
            self.tables.offsets,
            registrar,
            clock,
            self.forget,
            settled=self.tables.settled,
            log_ends=lambda: (self.store.first_offset, self.store.positions.written),
        )

    async def forget(self, topic: str) -> None:
        await forget_topic(self.store, self.tables, Stats(self.clock), topic)

    async def send(self, body: bytes, *asks: str) -> None:
        text = f"UNIQ_KEY\x01{body.decode()}\x02" + "".join(f"{each}\x02" for each in asks)
        await self.ask(sent(body=body, properties=text))

    async def delete(self, topic: str = "t") -> None:
        await self._topics._delete((topic,))
        self.tables.save()

    async def pass_by(self, ms: int) -> None:
        await self.clock.advance(ms)
        await self.delays.deliver_due()
        await self.timers.deliver_due()

    @property
    def topics(self) -> set[str]:
        return {name for name in self.tables.topics.all() if not self.tables.topics.is_system(name)}

    def found(self, topic: str = "t") -> list[bytes]:
        return [message.body for message in self.stored(topic)]


Open = Callable[..., DeletingParts]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the parts, again after the last ones were abandoned, on the same directory."""
    clock = ManualClock(1_700_000_000_000)
    last: list[DeletingParts] = []

    def open_parts(**changes: Any) -> DeletingParts:
        if last:
            last[-1].abandon()
        last.append(DeletingParts(tmp_path, clock, **changes))
        return last[-1]

    yield open_parts
    last[-1].abandon()


@pytest.mark.parametrize("asks", WAYS)
@pytest.mark.parametrize("restart", [False, True])
async def test_what_waits_for_a_topic_goes_with_it_and_does_not_bring_it_back(
    opened: Open, asks: str, restart: bool
) -> None:
    parts = opened()
    await parts.send(b"shown")
    await parts.send(b"waits", asks)
    await parts.delete()
    if restart:
        parts = opened()
    await parts.pass_by(60_000)
    assert parts.found() == []
    parts = opened()
    assert "t" not in parts.topics
    await parts.pass_by(60_000)
    assert parts.found() == []


@pytest.mark.parametrize("asks", WAYS)
async def test_a_topic_that_is_made_anew_gets_only_what_was_sent_to_it(
    opened: Open, asks: str
) -> None:
    parts = opened()
    await parts.send(b"old", asks)
    await parts.delete()
    await parts.send(b"new", asks)
    await parts.send(b"now")
    for _ in range(2):
        parts = opened()
        await parts.pass_by(60_000)
        assert sorted(parts.found()) == [b"new", b"now"]
        assert "t" in parts.topics


async def test_what_was_put_again_on_the_way_goes_too(opened: Open) -> None:
    parts = opened(reserved_hours=2)
    await parts.send(b"timed", f"TIMER_DELAY_MS\x01{4 * HOUR_MS}")
    await parts.send(b"level", "DELAY\x0118")
    await parts.delete()
    for _ in range(10):
        await parts.pass_by(HOUR_MS // 2)
    assert parts.found() == []
    assert parts.found("rmq_sys_wheel_timer") == [b"timed"]


@pytest.mark.parametrize("restart", [False, True])
async def test_half_messages_of_a_deleted_topic_end_with_it(opened: Open, restart: bool) -> None:
    parts = opened()
    committed, _ = await parts.half(b"a"), await parts.half(b"b")
    await parts.delete()
    if restart:
        parts = opened()
    await parts.decide(committed, Transaction.COMMITTED)
    await parts.clock.advance(60_000)
    await parts.checks.ask_all()
    assert parts.asked.places() == []
    parts = opened()
    assert len(parts.waiting) == 0
    assert "t" not in parts.topics
    assert parts.bodies() == []


@pytest.mark.parametrize("asks", WAYS)
async def test_what_nobody_deleted_is_seen_though_its_topic_was_forgotten(
    opened: Open, asks: str, tmp_path: Path
) -> None:
    parts = opened()
    await parts.send(b"waits", asks)
    parts = opened()  # its table was never saved
    assert "t" not in parts.topics
    await parts.pass_by(60_000)
    assert parts.found() == [b"waits"]
    assert "t" in parts.topics


async def test_a_start_finishes_what_the_last_run_was_about_to_delete(opened: Open) -> None:
    parts = opened()
    await parts.send(b"a")
    await parts.send(b"waits", WAYS[0])
    parts.tables.offsets.commit("g", "t", 0, parts.stored("t")[0].queue_offset)
    parts.tables.topics.begin_delete("t", 1)
    parts.tables.save()
    for _ in range(2):
        parts = opened()
        assert "t" not in parts.topics
        assert parts.found() == []
        assert list(parts.tables.offsets.all()) == []
        parts.tables.save()
    await parts.pass_by(60_000)
    assert parts.found() == []
    await parts.send(b"new")
    parts.tables.save()
    parts = opened()
    assert parts.found() == [b"new"]


async def test_queues_that_a_kill_left_of_a_deleted_topic_are_not_taken_for_it(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = opened()
    await parts.send(b"a")
    parts.store.sync_derived()

    async def killed(topic: str) -> None:
        """Nothing of it reaches the disk."""

    monkeypatch.setattr(parts, "forget", killed)
    parts._topics._forget_queues = killed
    await parts.delete()
    parts = opened()
    assert "t" not in parts.topics
    assert parts.found() == []


@pytest.mark.parametrize(("olds", "queue_file_bytes"), [(5, 60_000), (4000, 100_000)])
async def test_a_damaged_queue_of_a_topic_made_anew_shows_nothing_of_the_deleted_one(
    opened: Open, tmp_path: Path, olds: int, queue_file_bytes: int
) -> None:
    parts = opened(queue_file_bytes=queue_file_bytes)
    await parts.send(b"old")
    await parts.intake.put([put(body=b"old") for _ in range(olds - 1)])
    await parts.delete()
    await parts.send(b"new")
    parts.tables.save()
    parts.store.close()
    file = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[5] ^= 1
    file.write_bytes(data)
    for _ in range(2):
        parts = opened(queue_file_bytes=queue_file_bytes)
        first = parts.store.min_offset("t", 0)
        assert (first, parts.store.max_offset("t", 0)) == (olds, olds + 1)
        (message,) = view_records(parts.store.read("t", 0, first, max_count=9).records)
        assert message.body == b"new"


async def test_a_deletion_is_remembered_as_long_as_the_log_goes_back(opened: Open) -> None:
    parts = opened(segment_bytes=16 << 10)
    await parts.send(b"a")
    await parts.delete()
    parts.tables.finish_deletions(parts.store)
    assert parts.tables.topics.was_deleted_since("t", 0)
    for _ in range(2):
        await parts.ask(sent("other", body=bytes(9000)))
    parts.store.flush()
    parts.store.delete_before(parts.store.positions.written)
    parts.tables.finish_deletions(parts.store)
    assert not parts.tables.topics.was_deleted_since("t", 0)
    assert parts.tables.topics.to_file().deleted is None
