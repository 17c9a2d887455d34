from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import HeaderError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.requests.pop_offsets import (
    MAX_ENTRIES,
    PoppedMessage,
    PoppedQueue,
    read_message_offsets,
    read_order_counts,
    read_start_offsets,
    write_message_offsets,
    write_order_counts,
    write_start_offsets,
)

GOLDEN = {
    body["body"]: body["text"]
    for body in json.loads((Path(__file__).parent / "golden" / "bodies.json").read_text())["bodies"]
}

queues = st.builds(PoppedQueue, st.sampled_from([0, 1, 2]), st.integers(0, 1000))
offsets = st.integers(0, (1 << 63) - 1).map(QueueOffset)


def test_where_a_pop_began_is_read_as_rocketmq_wrote_it() -> None:
    text = GOLDEN["startOffsetInfo"]
    starts = read_start_offsets(text)
    assert starts == {PoppedQueue(0, 0): 100, PoppedQueue(1, 1): 200, PoppedQueue(2, 2): 300}
    assert write_start_offsets(starts) == text


def test_what_a_pop_took_is_read_as_rocketmq_wrote_it() -> None:
    text = GOLDEN["msgOffsetInfo"]
    taken = read_message_offsets(text)
    assert taken == {PoppedQueue(0, 0): [100, 101, 105], PoppedQueue(2, 2): [300]}
    assert write_message_offsets(taken) == text


def test_order_counts_are_read_as_rocketmq_wrote_them() -> None:
    text = GOLDEN["orderCountInfo"]
    counts = read_order_counts(text)
    queue = PoppedQueue(0, 0)
    assert counts == {queue: 3, PoppedMessage(queue, QueueOffset(101)): 2}
    assert write_order_counts(counts) == text


def test_an_empty_text_names_no_queue() -> None:
    assert read_start_offsets("") == {}
    assert read_message_offsets("") == {}
    assert read_order_counts("") == {}


@given(st.dictionaries(queues, offsets, max_size=5))
def test_start_offsets_survive_the_text(starts: dict[PoppedQueue, QueueOffset]) -> None:
    assert read_start_offsets(write_start_offsets(starts)) == starts


@given(st.dictionaries(queues, st.lists(offsets, min_size=1, max_size=5), max_size=5))
def test_message_offsets_survive_the_text(taken: dict[PoppedQueue, list[QueueOffset]]) -> None:
    assert read_message_offsets(write_message_offsets(taken)) == taken


@given(st.dictionaries(queues | st.builds(PoppedMessage, queues, offsets), st.integers(0, 99)))
def test_order_counts_survive_the_text(counts: dict[PoppedQueue | PoppedMessage, int]) -> None:
    assert read_order_counts(write_order_counts(counts)) == counts


@pytest.mark.parametrize(
    "text",
    ["0 0", "0 0 1 2", "3 0 1", "0 x 1", "0 0 x", "0 0 1;0 0 2", "0 0 1;", ";", "0 0 1_0", "0 0 ٣"],
)
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(HeaderError):
        read_start_offsets(text)


@pytest.mark.parametrize("text", ["0 qo0 1", "0 qo%5 1", "0 qo0%x 1", "0 qo0%5 1;0 qo0%5 2"])
def test_an_order_count_of_no_message_is_refused(text: str) -> None:
    with pytest.raises(HeaderError):
        read_order_counts(text)


def test_a_number_too_long_for_java_is_refused() -> None:
    with pytest.raises(HeaderError):
        read_start_offsets("0 0 " + "9" * 5000)


def test_more_entries_than_a_pop_could_give_are_refused() -> None:
    with pytest.raises(HeaderError, match="more than"):
        read_start_offsets(";".join(f"0 {number} 1" for number in range(MAX_ENTRIES + 1)))
    with pytest.raises(HeaderError, match="more than"):
        read_message_offsets("0 0 " + ",".join(["1"] * (MAX_ENTRIES + 1)))


def test_an_error_says_where() -> None:
    with pytest.raises(HeaderError) as caught:
        read_start_offsets("0 0 100;bad")
    assert caught.value.at == 8
