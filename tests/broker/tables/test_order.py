"""What was popped in order blocks its queue, and is kept as RocketMQ keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.broker.tables.order import (
    FORGOTTEN_MS,
    NotPopped,
    OrderedPop,
    OrderFile,
    OrderTable,
)
from rocketpipe.broker.tables.table_file import TableFile
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol import fastjson
from rocketpipe.store.files.disk import Disk

PLACE = ("t", "g", 0)
# In the words of ConsumerOrderInfoManager of Apache RocketMQ 5.3.
ROCKETMQS = (
    b'{"table":{"t@g":{0:{"a":"x","cm":1,"i":60000,"l":1000,"o":[17,1,5],"oc":{18:2},'
    b'"ot":{22:90000},"popTime":1000}}}}'
)


def popped(
    table: OrderTable, *offsets: int, pop_ms: int = 1000, attempt_id: str | None = None
) -> OrderedPop:
    return table.popped(
        *PLACE,
        offsets=[QueueOffset(each) for each in offsets],
        pop_ms=pop_ms,
        invisible_ms=500,
        attempt_id=attempt_id,
    )


@pytest.mark.parametrize("step_ms", [-900, 100, 86_400_000])
def test_a_wall_clock_that_is_set_blocks_a_queue_as_long_as_before(step_ms: int) -> None:
    table = OrderTable()
    popped(table, 5, 7)
    table.hide(*PLACE, QueueOffset(7), 1000, 1300)
    table.acknowledge(*PLACE, QueueOffset(5), 1000)
    now_ms = 1100 + step_ms  # a tenth of a second has passed, and somebody has set the clock
    table.shift(step_ms, now_ms)
    assert table.is_blocked(*PLACE, None, now_ms + 199)
    assert not table.is_blocked(*PLACE, None, now_ms + 200)
    assert table.acknowledge(*PLACE, QueueOffset(7), 1000) is not None


def test_a_queue_is_blocked_until_all_was_acknowledged_or_shows_again() -> None:
    table = OrderTable()
    popped(table, 5, 7)
    assert table.is_blocked(*PLACE, None, 1499)
    assert not table.is_blocked(*PLACE, None, 1500)
    first = table.acknowledge(*PLACE, QueueOffset(7), 1000)
    assert first is not None
    assert first.next_offset == 5
    assert table.is_blocked(*PLACE, None, 1400)
    both = table.acknowledge(*PLACE, QueueOffset(5), 1000)
    assert both is not None
    assert both.next_offset == 8
    assert not table.is_blocked(*PLACE, None, 1400)
    assert not table.is_blocked("t", "g", 1, None, 1400)


def test_what_comes_again_is_counted_but_not_for_the_same_attempt() -> None:
    table = OrderTable()
    assert popped(table, 5, 6).counts is None
    assert popped(table, 5, 6, 7, pop_ms=2000, attempt_id="a").counts == {5: 1, 6: 1}
    assert popped(table, 5, 6, pop_ms=3000, attempt_id="a").counts == {5: 1, 6: 1}
    assert popped(table, 6, pop_ms=4000).counts == {6: 2}
    assert not table.is_blocked(*PLACE, None, 4500)


def test_one_message_is_shown_at_another_time() -> None:
    table = OrderTable()
    popped(table, 5, 6)
    assert table.hide(*PLACE, QueueOffset(6), 1000, 9000)
    assert not table.hide(*PLACE, QueueOffset(9), 1000, 9000)
    assert not table.hide(*PLACE, QueueOffset(6), 1, 9000)
    assert dict(table.blocked(1000)) == {PLACE: 9000}
    table.clear(*PLACE)
    assert not table.is_blocked(*PLACE, None, 1001)


def test_what_the_last_pop_did_not_give_is_not_acknowledged() -> None:
    table = OrderTable()
    assert table.acknowledge(*PLACE, QueueOffset(5), 1000) is None
    popped(table, 5)
    assert table.acknowledge(*PLACE, QueueOffset(5), 999) is None
    with pytest.raises(NotPopped):
        table.acknowledge(*PLACE, QueueOffset(6), 1000)


def test_it_is_read_from_rocketmqs_file_and_written_back(tmp_path: Path) -> None:
    path = tmp_path / "consumerOrderInfo.json"
    path.write_bytes(ROCKETMQS)
    file = TableFile(Disk(), path, OrderFile)
    saved = file.load()
    assert saved is not None
    table = OrderTable()
    table.load(saved)
    pop = table.get(*PLACE)
    assert pop is not None
    assert pop.offsets == (17, 18, 22)
    assert pop.next_offset == 18
    assert pop.free_ms() == 90_000
    assert fastjson.write(table.to_file(2000)) == ROCKETMQS
    file.save(table.to_file(2000))
    assert file.load() == saved


def test_it_holds_so_much_and_no_more_and_forgets_what_is_long_over() -> None:
    table = OrderTable(limit=1)
    popped(table, 5)
    with pytest.raises(TableFull):
        table.popped("t", "g", 1, offsets=[QueueOffset(1)], pop_ms=1, invisible_ms=1)
    assert table.to_file(1000 + FORGOTTEN_MS).table
    assert not table.to_file(1001 + FORGOTTEN_MS).table
