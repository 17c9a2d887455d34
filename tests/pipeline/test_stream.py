"""Planning a stream, batch by batch, over queues in memory."""

from __future__ import annotations

import json
import logging
import pickle
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from tests.pipeline.support.fake_offsets import FakePlaces, queue

from rocketpipe.errors import ConnectionLost
from rocketpipe.pipeline import stream as stream_module
from rocketpipe.pipeline.columns.rows import SCHEMA, ColumnError
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.planning.gaps import MessagesGone
from rocketpipe.pipeline.planning.offset_reader import QueuesUnreachable, UnknownTopic
from rocketpipe.pipeline.stream import StreamReader

#: What Spark hands back; the reader keeps its own limits.
LIMITED = ReadMaxRows(1)


def reader(places: FakePlaces, **options: str) -> StreamReader:
    """A reader over these queues, as Spark would have made it."""
    given = {"nameServer": "127.0.0.1:1", "startingOffsets": "earliest", **options}
    if not {"subscribePattern", "assign"} & given.keys():
        given.setdefault("subscribe", "orders")
    made = StreamReader(ReadOptions.parse(given), SCHEMA)
    made._places = places
    return made


def topics(offset: Mapping[str, Any]) -> dict[str, int]:
    return {
        f"{topic}/{broker}/{number}": end
        for topic, brokers in offset["topics"].items()
        for broker, queues in brokers.items()
        for number, end in queues.items()
    }


def read_by(made: StreamReader, start: Any, end: Any) -> Counter[tuple[str, int, int]]:
    return Counter(
        (each.queue.topic, each.queue.queue_id, offset)
        for part in made.partitions(start, end)
        for each in part.ranges
        for offset in range(each.start, each.end)
    )


def test_a_batch_ends_where_the_queues_do_and_nothing_new_is_no_batch() -> None:
    places = FakePlaces({"orders/a/0": (0, 5), "orders/a/1": (2, 2)})
    made = reader(places)
    start = made.initialOffset()
    assert topics(start) == {"orders/a/0": 0, "orders/a/1": 2}
    end = made.latestOffset(start, ReadAllAvailable())
    assert topics(end) == {"orders/a/0": 5, "orders/a/1": 2}
    assert made.latestOffset(end, ReadAllAvailable()) == end
    assert made.reportLatestOffset() == {"v": 1, "topics": end["topics"], "lag": 0}
    assert read_by(made, start, end) == Counter(("orders", 0, offset) for offset in range(5))
    assert made.partitions(end, end) == []


def test_the_progress_tells_how_many_messages_a_query_is_behind() -> None:
    made = reader(
        FakePlaces({"orders/a/0": (0, 50), "orders/a/1": (0, 7)}), maxOffsetsPerTrigger="10"
    )
    assert made.reportLatestOffset() is None
    end = made.latestOffset(made.initialOffset(), made.getDefaultReadLimit())
    latest = made.reportLatestOffset()
    assert latest is not None
    assert latest["lag"] == 47
    made.latestOffset(end, ReadAllAvailable())
    assert (made.reportLatestOffset() or {})["lag"] == 0


def test_a_batch_is_planned_the_same_again_whatever_came_since() -> None:
    places = FakePlaces({"orders/a/0": (0, 5000), "orders/a/1": (0, 9000)}, message_bytes=1000)
    options = {"maxBytesPerPartition": "1m", "minPartitions": "3"}
    made = reader(places, **options)
    start = made.initialOffset()
    end = made.latestOffset(start, ReadAllAvailable())
    planned = made.partitions(start, end)
    assert len(planned) > 3
    places.grow("orders/a/0", 777)
    places.message_bytes = 5
    places.held[queue("orders/a/1")] = (8000, 9500)
    places.held[queue("orders/a/7")] = (0, 3)
    again = reader(places, **options).partitions(json.loads(json.dumps(start)), end)
    assert [part.ranges for part in again] == [part.ranges for part in planned]


def test_the_first_batch_begins_where_it_did_also_after_a_restart() -> None:
    places = FakePlaces({"orders/a/0": (0, 5), "orders/a/1": (0, 3)})
    made = reader(places, startingOffsets="latest")
    start = made.initialOffset()
    places.grow("orders/a/0", 2)
    end = json.loads(json.dumps(made.latestOffset(start, ReadAllAvailable())))
    assert read_by(made, start, end) == Counter({("orders", 0, 5): 1, ("orders", 0, 6): 1})
    places.grow("orders/a/0", 4)  # while the query was down, before that batch had ended
    again = reader(places, startingOffsets="latest")
    assert read_by(again, again.initialOffset(), end) == read_by(made, start, end)
    assert end["from"] == {"orders": {"a": {"0": 5, "1": 3}}}


def test_a_limit_is_shared_out_and_all_is_read_in_the_end() -> None:
    places = FakePlaces({"orders/a/0": (0, 100), "orders/a/1": (0, 4)})
    made = reader(places, maxOffsetsPerTrigger="10")
    assert made.getDefaultReadLimit() == ReadMaxRows(10)
    start = made.initialOffset()
    first = made.latestOffset(start, LIMITED)
    assert places.measured == {}
    assert topics(first) == {"orders/a/0": 6, "orders/a/1": 4}
    assert topics(made.latestOffset(first, LIMITED)) == {"orders/a/0": 16, "orders/a/1": 4}
    assert topics(made.latestOffset(first, ReadAllAvailable()))["orders/a/0"] == 100


def test_a_limit_in_bytes_goes_by_the_size_of_messages() -> None:
    places = FakePlaces({"orders/a/0": (0, 100), "orders/a/1": (0, 100)}, message_bytes=100)
    made = reader(places, maxBytesPerTrigger="1000")
    assert made.getDefaultReadLimit() == ReadMaxBytes(1000)
    end = made.latestOffset(made.initialOffset(), LIMITED)
    assert topics(end) == {"orders/a/0": 5, "orders/a/1": 5}
    assert end["bytes"] == {"orders": {"a": {"0": 500, "1": 500}}}
    # However much waits: looked at is what could fit into the batch.
    assert set(places.measured.values()) == {11}
    assert reader(places).getDefaultReadLimit() == ReadAllAvailable()


def test_a_spark_that_tells_no_start_is_limited_all_the_same() -> None:
    places = FakePlaces({"orders/a/0": (0, 100)})
    made = reader(places, maxOffsetsPerTrigger="10")
    start = made.initialOffset()
    first = made.latestOffset()
    assert topics(first) == {"orders/a/0": 10}
    made.partitions(start, first)
    assert topics(made.latestOffset()) == {"orders/a/0": 20}
    restarted = reader(places, maxOffsetsPerTrigger="10")
    restarted.partitions(first, first)  # so it tells a query that goes on where it is
    assert topics(restarted.latestOffset()) == {"orders/a/0": 20}


def test_available_now_ends_where_the_queues_ended_when_it_began() -> None:
    places = FakePlaces({"orders/a/0": (0, 5)})
    made = reader(places, maxOffsetsPerTrigger="4")
    made.prepareForTriggerAvailableNow()
    places.grow("orders/a/0", 10)
    places.held[queue("orders/a/1")] = (0, 3)
    start = made.initialOffset()
    first = made.latestOffset(start, LIMITED)
    assert topics(first)["orders/a/0"] == 4
    second = made.latestOffset(first, LIMITED)
    assert topics(second)["orders/a/0"] == 5
    assert made.latestOffset(second, LIMITED) == second


def test_available_now_does_not_end_early_because_a_broker_is_away() -> None:
    places = FakePlaces({"orders/a/0": (0, 5), "orders/b/0": (0, 5)})
    made = reader(places, maxOffsetsPerTrigger="8")
    start = made.initialOffset()
    made.prepareForTriggerAvailableNow()
    first = made.latestOffset(start, LIMITED)
    places.silent.add("b")
    with pytest.raises(QueuesUnreachable, match="broker 'b'"):
        made.latestOffset(first, LIMITED)
    with pytest.raises(QueuesUnreachable, match="broker 'b'"):
        reader(places).prepareForTriggerAvailableNow()


def test_without_a_name_server_what_is_known_is_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    places = FakePlaces({"orders-1/a/0": (0, 5)})
    made = reader(places, subscribePattern="orders-.*")
    start = made.initialOffset()

    def away() -> frozenset[str]:
        raise ConnectionLost("127.0.0.1:1", "no NameServer answers")

    monkeypatch.setattr(places, "topics", away)
    assert topics(made.latestOffset(start, ReadAllAvailable())) == {"orders-1/a/0": 5}


def test_a_new_queue_and_a_new_topic_are_read_from_their_earliest_message() -> None:
    places = FakePlaces({"orders-1/a/0": (0, 5)})
    made = reader(places, subscribePattern="orders-.*", startingOffsets="latest")
    start = made.initialOffset()
    places.held |= {queue("orders-1/a/1"): (0, 6), queue("orders-2/b/0"): (7, 9)}
    places.held[queue("other/a/0")] = (0, 9)
    end = made.latestOffset(start, ReadAllAvailable())
    assert topics(end) == {"orders-1/a/0": 5, "orders-1/a/1": 6, "orders-2/b/0": 9}
    places.held[queue("orders-1/a/1")] = (5, 7)  # what ages out later does not move the batch
    assert read_by(made, start, end) == Counter(
        {("orders-1", 1, at): 1 for at in range(6)} | {("orders-2", 0, at): 1 for at in (7, 8)}
    )


def test_a_queue_that_came_and_lost_its_first_messages_unseen_is_a_gap() -> None:
    places = FakePlaces({"orders/a/0": (0, 5)})
    start = reader(places).latestOffset(reader(places).initialOffset(), ReadAllAvailable())
    places.held[queue("orders/a/1")] = (3, 6)
    with pytest.raises(MessagesGone, match=r"queue 1 .* has no messages 0 to 2 any more"):
        reader(places).latestOffset(start, ReadAllAvailable())
    made = reader(places, onGap="skip")
    end = made.latestOffset(start, ReadAllAvailable())
    assert read_by(made, start, end) == Counter(("orders", 1, at) for at in range(3, 6))


def test_a_pattern_that_fits_nothing_waits(caplog: pytest.LogCaptureFixture) -> None:
    made = reader(FakePlaces({}), subscribePattern="orders-.*")
    with caplog.at_level(logging.WARNING, "rocketpipe.pipeline"):
        start = made.initialOffset()
    assert "no topic fits yet" in caplog.text
    assert made.latestOffset(start, ReadAllAvailable()) == start
    assert made.partitions(start, start) == []


def test_a_lost_broker_keeps_its_place_and_is_read_when_it_is_back() -> None:
    places = FakePlaces({"orders/a/0": (0, 5), "orders/b/0": (0, 5)})
    made = reader(places)
    first = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    places.grow("orders/a/0", 2)
    places.grow("orders/b/0", 2)
    places.silent.add("b")
    second = made.latestOffset(first, ReadAllAvailable())
    assert topics(second) == {"orders/a/0": 7, "orders/b/0": 5}
    places.silent.clear()
    third = made.latestOffset(second, ReadAllAvailable())
    assert topics(third) == {"orders/a/0": 7, "orders/b/0": 7}
    assert made.latestOffset(third, ReadAllAvailable()) == third


def test_what_cannot_be_read_for_now_is_in_the_progress() -> None:
    places = FakePlaces({"orders/a/0": (0, 5), "orders/a/1": (0, 5), "orders/b/0": (0, 5)})
    made = reader(places)
    start = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    places.grow("orders/a/1", 3)
    places.silent.add("b")
    places.hidden.add(queue("orders/a/1"))
    assert made.latestOffset(start, ReadAllAvailable()) == start
    away, hidden = (made.reportLatestOffset() or {})["held_up"]
    assert away == "broker 'b' does not answer: its queues wait for it"
    assert "queue 1 of broker 'a' cannot be read any more, and 3 of its messages" in hidden
    places.silent.clear()
    places.hidden.clear()
    assert topics(made.latestOffset(start, ReadAllAvailable()))["orders/a/1"] == 8
    assert "held_up" not in (made.reportLatestOffset() or {})


def test_a_broker_that_is_away_at_the_very_start_is_an_error() -> None:
    places = FakePlaces({"orders/b/0": (0, 5)})
    places.silent.add("b")
    with pytest.raises(QueuesUnreachable, match="broker 'b'"):
        reader(places).initialOffset()


def test_a_deleted_topic_does_not_stop_the_others() -> None:
    places = FakePlaces({"orders/a/0": (0, 5), "returns/a/0": (0, 5)})
    made = reader(places, subscribe="orders,returns")
    start = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    del places.held[queue("returns/a/0")]
    places.grow("orders/a/0", 1)
    end = made.latestOffset(start, ReadAllAvailable())
    assert topics(end) == {"orders/a/0": 6, "returns/a/0": 5}
    with pytest.raises(UnknownTopic, match="'nowhere'"):
        reader(places, subscribe="nowhere").initialOffset()


def test_messages_that_aged_out_are_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    places = FakePlaces({"orders/a/0": (0, 5)})
    start = reader(places).initialOffset()
    places.held[queue("orders/a/0")] = (3, 8)
    with pytest.raises(MessagesGone, match="no messages 0 to 2 any more"):
        reader(places).latestOffset(start, ReadAllAvailable())
    made = reader(places, onGap="skip")
    with caplog.at_level(logging.WARNING, "rocketpipe.pipeline"):
        end = made.latestOffset(start, ReadAllAvailable())
    assert "from=0 to=2 count=3" in caplog.text
    assert read_by(made, start, end) == Counter(("orders", 0, at) for at in range(3, 8))


@pytest.mark.parametrize("count", [0, 4, 50, 80], ids=["none", "fewer", "as many", "more"])
def test_a_topic_made_anew_is_told_and_then_read_whole(count: int) -> None:
    """However many messages it has by now: it is another one."""
    places = FakePlaces({"orders/a/0": (0, 50)})
    start = json.loads(json.dumps(reader(places, startingOffsets="latest").initialOffset()))
    places.held[queue("orders/a/0")] = (0, count)
    places.born_ms[queue("orders/a/0")] = 7777
    made = reader(places, onGap="skip")
    if count != 50:
        with pytest.raises(MessagesGone, match="made anew since it was read up to 50"):
            reader(places).latestOffset(start, ReadAllAvailable())
    else:
        assert made.latestOffset(start, ReadAllAvailable()) == start  # it shows with the next one
        places.grow("orders/a/0", 1)
        count += 1
    end = made.latestOffset(start, ReadAllAvailable())
    assert topics(end) == {"orders/a/0": count}
    assert read_by(made, start, end) == Counter(("orders", 0, at) for at in range(count))
    places.grow("orders/a/0", 3)
    later = reader(places).latestOffset(end, ReadAllAvailable())
    assert topics(later) == {"orders/a/0": count + 3}


def test_a_queue_that_lost_its_end_goes_on_there_and_nothing_is_read_again() -> None:
    """As a broker may that was killed before it had synced."""
    places = FakePlaces({"orders/a/0": (0, 50)})
    start = reader(places, startingOffsets="latest").initialOffset()
    places.held[queue("orders/a/0")] = (0, 40)
    with pytest.raises(MessagesGone, match="no messages 40 to 49 any more"):
        reader(places).latestOffset(start, ReadAllAvailable())
    made = reader(places, onGap="skip")
    end = made.latestOffset(start, ReadAllAvailable())
    places.grow("orders/a/0", 2)
    later = made.latestOffset(end, ReadAllAvailable())
    assert read_by(made, end, later) == Counter({("orders", 0, 40): 1, ("orders", 0, 41): 1})


def test_a_checkpoint_that_does_not_know_its_queues_again_goes_by_offsets() -> None:
    places = FakePlaces({"orders/a/0": (0, 4)})
    old = {"v": 1, "topics": {"orders": {"a": {"0": 50}}}}
    with pytest.raises(MessagesGone, match="made anew"):
        reader(places).latestOffset(old, ReadAllAvailable())
    end = reader(places, onGap="skip").latestOffset(old, ReadAllAvailable())
    assert end["oldest"] == {"orders": {"a": {"0": [0, 0]}}}


def test_messages_that_age_out_between_two_questions_make_no_queue_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = FakePlaces({"orders/a/0": (0, 50)})
    made = reader(places)
    start = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    places.grow("orders/a/0", 5)
    ends = places.ends

    def aging(queues: Any) -> Any:
        found = ends(queues)
        places.held[queue("orders/a/0")] = (20, 55)
        return found

    monkeypatch.setattr(places, "ends", aging)
    end = made.latestOffset(start, ReadAllAvailable())
    assert read_by(made, start, end) == Counter(("orders", 0, at) for at in range(50, 55))


def test_a_deleted_topic_whose_route_lingers_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    places = FakePlaces({"orders/a/0": (0, 5), "returns/a/0": (0, 5)})
    made = reader(places, subscribe="orders,returns")
    start = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    places.gone.add("returns")
    places.held[queue("returns/a/0")] = (0, 0)
    places.grow("orders/a/0", 1)
    with caplog.at_level(logging.WARNING, "rocketpipe.pipeline"):
        end = made.latestOffset(start, ReadAllAvailable())
    assert "topic is deleted topic=returns" in caplog.text
    assert topics(end) == {"orders/a/0": 6, "returns/a/0": 5}


def test_whether_a_queue_is_the_same_is_not_guessed() -> None:
    places = FakePlaces({"orders/a/0": (0, 50)})
    start = reader(places, startingOffsets="latest").initialOffset()
    places.held[queue("orders/a/0")] = (0, 4)
    places.oldest_ms = lambda queues: {}  # type: ignore[method-assign]
    assert reader(places, onGap="skip").latestOffset(start, ReadAllAvailable()) == start


def test_a_start_beyond_the_end_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    places = FakePlaces({"orders/a/0": (0, 9)})
    beyond = '{"orders": {"a": {"0": 10}}}'
    with pytest.raises(OptionError, match=r"'startingOffsets' has 10 .* ends at 9: give 9 or less"):
        reader(places, startingOffsets=beyond).initialOffset()
    with caplog.at_level(logging.WARNING, "rocketpipe.pipeline"):
        start = reader(places, startingOffsets=beyond, onGap="skip").initialOffset()
    assert topics(start) == {"orders/a/0": 9}
    assert "the end is taken" in caplog.text


def test_offsets_and_times_say_where_to_begin() -> None:
    places = FakePlaces({"orders/a/0": (0, 9), "orders/a/1": (0, 9)})
    some = '{"orders": {"a": {"1": 4}}}'
    assert topics(reader(places, startingOffsets=some).initialOffset()) == {
        "orders/a/0": 0,
        "orders/a/1": 4,
    }
    late = reader(places, startingOffsets="", startingTimestamp="6500")
    assert topics(late.initialOffset()) == {"orders/a/0": 7, "orders/a/1": 7}
    with pytest.raises(OptionError, match="'startingOffsets' names queue 3"):
        reader(places, startingOffsets='{"orders": {"a": {"3": 4}}}').initialOffset()


def test_a_new_query_begins_at_the_end_unless_told_otherwise() -> None:
    made = StreamReader(
        ReadOptions.parse({"nameServer": "127.0.0.1:1", "subscribe": "orders"}), SCHEMA
    )
    made._places = FakePlaces({"orders/a/0": (0, 9)})
    assert topics(made.initialOffset()) == {"orders/a/0": 9}


def test_the_group_is_told_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, int]] = []

    class Progress:
        def __init__(self, name_servers: str, group: str, tls: object) -> None:
            assert group == "job"

        def tell(self, ends: Mapping[Any, int]) -> None:
            told.append({f"{each.topic}/{each.queue_id}": end for each, end in ends.items()})

        def close(self) -> None:
            told.append({})

    monkeypatch.setattr(stream_module, "GroupProgress", Progress)
    places = FakePlaces({"orders/a/0": (0, 9)})
    made = reader(places, groupId="job")
    start = made.initialOffset()
    end = made.latestOffset(start, ReadAllAvailable())
    made.commit(end)
    made.stop()
    assert told == [{"orders/0": 0}, {"orders/0": 9}, {}]
    assert places.is_closed
    quiet = reader(FakePlaces({"orders/a/0": (0, 9)}))
    quiet.commit(end)
    assert quiet._progress is None


def test_it_travels_before_it_is_used_and_refuses_what_it_cannot_do() -> None:
    options = ReadOptions.parse({"nameServer": "127.0.0.1:1", "subscribe": "orders"})
    pickle.loads(pickle.dumps(StreamReader(options, SCHEMA))).stop()
    with pytest.raises(ColumnError, match="'colour'"):
        StreamReader(options, pa.schema([("colour", pa.string())]))
    ending = {"nameServer": "a:1", "subscribe": "a", "endingOffsets": "latest"}
    with pytest.raises(OptionError, match="availableNow"):
        StreamReader(ReadOptions.parse(ending), SCHEMA)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grow", "batch", "restart", "add", "lose", "find"]), st.integers(0, 40)
    ),
    max_size=25,
)


@given(STEPS, st.sampled_from(["1", "7", "1000"]))
def test_whatever_happens_every_offset_is_read_once(
    steps: list[tuple[str, int]], limit: str
) -> None:
    places = FakePlaces({"orders/a/0": (0, 3), "orders/b/0": (0, 0)})
    made = reader(places, maxOffsetsPerTrigger=limit)
    at, read = made.initialOffset(), Counter[tuple[str, int, int]]()
    for step, number in [*steps, ("find", 0)]:
        match step:
            case "grow":
                places.grow("orders/a/0" if number % 2 else "orders/b/0", number)
            case "add":
                places.held.setdefault(queue(f"orders/a/{number}"), (0, number))
            case "lose":
                places.silent.add("b")
            case "find":
                places.silent.clear()
            case "restart":
                made = reader(places, maxOffsetsPerTrigger=limit)
            case "batch":
                end = made.latestOffset(at, LIMITED)
                planned = read_by(made, at, end)
                assert planned == read_by(reader(places), at, end)
                read, at = read + planned, end
    end = made.latestOffset(at, ReadAllAvailable())
    read += read_by(made, at, end)
    held = Counter(
        (each.topic, each.queue_id, offset)
        for each, (least, greatest) in places.held.items()
        for offset in range(least, greatest)
    )
    assert read == held


def test_a_drained_broker_that_was_read_is_gone_and_one_that_was_not_is_a_gap(
    caplog: pytest.LogCaptureFixture,
) -> None:
    places = FakePlaces({"orders/a/0": (0, 5), "orders/b/0": (0, 7)})
    made = reader(places)
    start = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    places.drain("b")
    assert made.latestOffset(start, ReadAllAvailable()) == start
    assert "broker was drained: all of it had been read broker=b" in caplog.text
    places.grow("orders/a/0", 1)
    assert topics(made.latestOffset(start, ReadAllAvailable()))["orders/a/0"] == 6

    places = FakePlaces({"orders/a/0": (0, 5), "orders/b/0": (0, 7)})
    first = reader(places).latestOffset(reader(places).initialOffset(), ReadAllAvailable())
    places.grow("orders/b/0", 2)
    places.drain("b")
    with pytest.raises(MessagesGone, match="'b' was drained before messages 7 to 8"):
        reader(places).latestOffset(first, ReadAllAvailable())  # a query that was started again
    again = reader(places, onGap="skip")
    end = again.latestOffset(first, ReadAllAvailable())
    assert topics(end) == {"orders/a/0": 5, "orders/b/0": 9}
    assert read_by(again, first, end) == Counter()
    assert again.latestOffset(end, ReadAllAvailable()) == end
