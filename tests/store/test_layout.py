"""Names of files and directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.errors import InvalidName
from rocketpipe.store.layout import StoreLayout, check_queue, file_name, offset_of


def test_a_file_is_named_for_its_first_byte_in_twenty_digits() -> None:
    assert file_name(1 << 30) == "00000000001073741824"
    assert offset_of(file_name(1 << 30)) == 1 << 30


@pytest.mark.parametrize(
    "name", ["", "1", "0000000000107374182x", "٠" * 20, "000000000010737418240", "+" + "0" * 19]
)
def test_other_names_stand_for_no_position(name: str) -> None:
    assert offset_of(name) is None


def test_the_directory_is_rocketmqs() -> None:
    layout = StoreLayout(Path("root"))
    assert layout.commit_log == Path("root/commitlog")
    assert layout.queue("orders", 3) == Path("root/consumequeue/orders/3")
    assert layout.index == Path("root/index")
    assert (layout.checkpoint, layout.abort) == (Path("root/checkpoint"), Path("root/abort"))
    assert layout.timer_check == Path("root/config/timercheck")


@pytest.mark.parametrize("topic", ["", "..", "a/b", "a\x00", "a b", "é", "x" * 256])
def test_no_topic_leads_out_of_the_directory(topic: str) -> None:
    with pytest.raises(InvalidName):
        StoreLayout(Path("root")).queue(topic, 0)


@pytest.mark.parametrize("queue_id", [-1, 1 << 31])
def test_a_queue_id_is_a_number_of_31_bits(queue_id: int) -> None:
    with pytest.raises(InvalidName):
        check_queue("orders", queue_id)
    check_queue("%RETRY%a|b_c-d", (1 << 31) - 1)
