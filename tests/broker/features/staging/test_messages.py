"""What a staged part holds, when it is taken and when it is moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.staging_parts import StagingParts

from rocketpipe.broker.features.staging import messages
from rocketpipe.broker.features.staging.records import Part
from rocketpipe.broker.intake.plain_batch import PlainBatch, plain_count
from rocketpipe.errors import BatchError
from rocketpipe.model import properties
from rocketpipe.record.batch import encode_batch
from rocketpipe.store.log.puts import Put
from rocketpipe.testing.clock import ManualClock

PLAIN = b"TAGS\x01a\x02UNIQ_KEY\x01K1\x02"
LAST = Put("ledger", 1, b"{}", b"", 0, 0, 5, bytes(8))


@pytest.fixture
def parts(tmp_path: Path) -> StagingParts:
    return StagingParts(tmp_path, ManualClock())


def part(*texts: bytes, **changes: Any) -> Part:
    plain = Part(
        batch=("app", 0),
        stage="s",
        number=0,
        topic="t",
        queue_id=2,
        sys_flag=0,
        born_ms=5,
        born_host=bytes(8),
        body=encode_batch([(7, b"%d" % number, text) for number, text in enumerate(texts)]),
    )
    return replace(plain, **changes)


def test_messages_that_ask_for_nothing_are_moved_without_a_look_at_each(
    parts: StagingParts,
) -> None:
    plain, odd = part(PLAIN, PLAIN), part(PLAIN, b"TAGS\x01a\x02")
    assert parts.messages.are_plain(plain)
    assert not parts.messages.are_plain(odd)
    for known in (True, False):  # an earlier run may have looked
        assert isinstance(parts.messages.group(plain, LAST, is_plain=known), PlainBatch)
    assert not isinstance(parts.messages.group(odd, LAST, is_plain=False), PlainBatch)


def test_a_part_that_is_too_long_is_not_plain_and_is_refused(parts: StagingParts) -> None:
    whole = part(PLAIN)
    parts.messages.limit(len(whole.body) - 1)
    assert not parts.messages.are_plain(whole)
    with pytest.raises(BatchError):
        parts.messages.checked(whole)


async def test_a_part_is_looked_at_once_unless_the_broker_was_started_anew(
    tmp_path: Path, parts: StagingParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []

    def counted(body: bytes) -> int:
        looked.append(body)
        return plain_count(body)

    monkeypatch.setattr(messages, "plain_count", counted)
    await parts.stage("one", b"0", b"1", properties=PLAIN)
    await parts.stage("two", b"2", properties=PLAIN, batch=1)
    await parts.commit({"one": 1})
    assert len(looked) == 2
    parts.abandon()
    parts = StagingParts(tmp_path, parts.clock)
    await parts.commit({"two": 1}, batch=1)
    assert len(looked) == 3
    assert parts.bodies() == [b"0", b"1", b"2"]


async def test_both_ways_store_the_same(parts: StagingParts) -> None:
    await parts.stage("quick", b"0", b"1", properties=PLAIN)
    await parts.stage("slow", b"2", b"3", properties=PLAIN + "n\x01ä\x02".encode(), queue_id=1)
    await parts.commit({"quick": 1, "slow": 1})
    assert parts.bodies() == [b"0", b"1", b"2", b"3"]
    quick, slow = parts.stored("t", 0)[0], parts.stored("t", 1)[0]
    assert {**quick.properties, "n": "ä"}.keys() == slow.properties.keys()
    assert quick.properties[properties.CLUSTER] == slow.properties[properties.CLUSTER]
    assert (quick.born_ms, quick.sys_flag, quick.flag) == (slow.born_ms, slow.sys_flag, slow.flag)
