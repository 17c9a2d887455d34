"""Whom a consumer is told to ask next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.support.sending_parts import SendingParts, put

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.delivery.cold_reads import ColdReads
from rocketpipe.broker.delivery.slave_reads import MASTER, SlaveReads
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.testing.clock import ManualClock

GROUP = GroupSettings(name="g", broker_id=0, which_broker_when_consume_slowly=2)


class Reads:
    """A queue whose first message is cold and whose last is not."""

    def __init__(self, parts: SendingParts) -> None:
        self.store = parts.store
        self.there = True
        self.groups = parts.tables.groups
        self.groups.update(GROUP, 1)
        cold = ColdReads(
            BrokerConfig(data=parts.config.data), parts.store, parts.clock, hot_bytes=1000
        )
        self.slaves = SlaveReads(cold, self.groups, lambda: self.there)

    def read(self, offset: int) -> bytes:
        return bytes(self.store.read("t", 0, QueueOffset(offset), max_count=1).records)


@pytest.fixture
async def parts(tmp_path: Path) -> SendingParts:
    parts = SendingParts(tmp_path, ManualClock())
    for size in (10, 2000, 10):
        await parts.intake.put([put(body=bytes(size))])
    return parts


@pytest.fixture
def reads(parts: SendingParts) -> Iterator[Reads]:
    yield Reads(parts)
    parts.abandon()


def test_who_reads_what_is_on_disk_alone_is_sent_to_the_slave_of_its_group(reads: Reads) -> None:
    assert reads.slaves.suggested("g", reads.read(0)) == 2
    assert reads.slaves.suggested("g", reads.read(2)) == MASTER


def test_a_group_may_be_sent_elsewhere_always(reads: Reads) -> None:
    reads.groups.update(GroupSettings(name="g", broker_id=1), 2)
    assert reads.slaves.suggested("g", reads.read(2)) == 1


def test_nobody_is_sent_to_a_slave_that_is_not_there(reads: Reads) -> None:
    reads.there = False
    assert reads.slaves.suggested("g", reads.read(0)) == MASTER


def test_who_read_nothing_or_is_not_known_stays(reads: Reads) -> None:
    assert reads.slaves.suggested("g", b"") == MASTER
    assert reads.slaves.suggested("unknown", reads.read(0)) == MASTER
