"""Which rows go together, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from tests.pipeline.support.sinks import TakingNote

from rocketpipe.client.producer.selectors import by_hash
from rocketpipe.client.session import Session
from rocketpipe.model.message import Message
from rocketpipe.model.properties import decode
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.write import WriteOptions
from rocketpipe.pipeline.writing.task import Sent, write_task
from rocketpipe.record.batch import decode_batch

QUEUES = [MessageQueue(topic="orders", broker_name="a", queue_id=number) for number in range(4)]


def written(
    *batches: dict[str, Any], batch_bytes: int = 1 << 20
) -> tuple[Sent, Sequence[tuple[Any, MessageQueue | None]]]:
    way = TakingNote()
    options = WriteOptions("127.0.0.1:1", "orders", batch_bytes=batch_bytes)
    given = [pa.record_batch(columns) for columns in batches]
    sent = write_task(given, options, Session("127.0.0.1:1"), way)
    return sent, way.sent


def bodies(parcel: Any) -> list[bytes]:
    if parcel.properties is not None:
        return [bytes(parcel.body)]
    found = [entry.body for entry in decode_batch(bytes(parcel.body))]
    assert parcel.count == len(found)
    return found


def test_rows_that_may_go_anywhere_go_in_large_batches() -> None:
    rows = [b"%05d" % number for number in range(1000)]
    sent, parcels = written({"body": rows[:600]}, {"body": rows[600:]}, batch_bytes=10_000)
    assert sent == Sent(rows=1000, sends=len(parcels))
    assert {queue for _, queue in parcels} == {None}
    assert [body for parcel, _ in parcels for body in bodies(parcel)] == rows
    assert all(len(parcel.body) <= 10_000 for parcel, _ in parcels)
    assert sent.sends < 20


def test_rows_of_a_queue_key_go_where_javas_producers_send_them_in_order() -> None:
    keys = [None if number % 10 == 0 else f"plane-{number % 7}" for number in range(500)]
    rows = [b"%d" % number for number in range(500)]
    _, parcels = written({"body": rows, "queue_key": keys}, batch_bytes=2000)
    for parcel, queue in parcels:
        for body in bodies(parcel):
            key = keys[int(body)]
            wanted = by_hash(QUEUES, Message("orders", b"x"), key) if key is not None else None
            assert queue == wanted
    for queue in {None, *QUEUES}:
        numbers = [int(b) for parcel, to in parcels if to == queue for b in bodies(parcel)]
        assert numbers == sorted(numbers)
    assert sorted(int(body) for parcel, _ in parcels for body in bodies(parcel)) == list(range(500))


def test_delayed_rows_and_very_long_ones_go_alone() -> None:
    columns = {
        "body": ["soon", "later", "x" * 5000, "soon too", "later too"],
        "delay_level": pa.array([None, 3, None, 0, 1], pa.int32()),
        "queue_key": pa.array([None, None, None, None, "k"]),
    }
    sent, parcels = written(columns, batch_bytes=1024)
    alone = {bytes(parcel.body)[:9]: (parcel, q) for parcel, q in parcels if parcel.properties}
    assert set(alone) == {b"later", b"later too", b"xxxxxxxxx"}
    assert decode(alone[b"later"][0].properties)["DELAY"] == "3"
    assert alone[b"later too"][1] == by_hash(QUEUES, Message("orders", b"x"), "k")
    assert "DELAY" not in decode(alone[b"xxxxxxxxx"][0].properties)
    together = [body for parcel, _ in parcels if not parcel.properties for body in bodies(parcel)]
    assert together == [b"soon", b"soon too"]
    assert sent.rows == 5


def test_rows_to_a_retry_topic_go_alone_and_topics_apart() -> None:
    columns = {"body": ["a", "b", "c"], "topic": ["%RETRY%team", "parts", None]}
    _, parcels = written(columns)
    found = {(parcel.topic, bodies(parcel)[0], parcel.properties is None) for parcel, _ in parcels}
    assert found == {
        ("%RETRY%team", b"a", False),
        ("parts", b"b", True),
        ("orders", b"c", True),
    }


def test_no_rows_open_no_connection() -> None:
    empty = {"body": pa.array([], pa.binary())}
    assert written(empty) == (Sent(), [])
    assert written() == (Sent(), [])


def staged(*batches: dict[str, Any], brokers: Sequence[str] = ("a", "b", "c")) -> Any:
    """What each broker gets of rows that are staged, and what is said of it."""
    way = TakingNote(brokers=brokers)
    options = WriteOptions("127.0.0.1:1", "orders", batch_bytes=2000)
    given = [pa.record_batch(columns) for columns in batches]
    sent = write_task(given, options, Session("127.0.0.1:1"), way, staged=True)
    found: dict[str, list[bytes]] = {}
    for parcel, queue in way.sent:
        name = parcel.broker if queue is None else queue.broker_name
        found.setdefault(name, []).extend(bodies(parcel))
    return sent.contents, {name: sorted(some) for name, some in found.items()}


ROWS: dict[str, list[Any]] = {
    "body": [b"%05d" % number for number in range(500)],
    "queue_key": [None if number % 3 else f"k{number % 7}" for number in range(500)],
    "delay_level": [number % 2 if number % 10 == 0 else 0 for number in range(500)],
    "tags": ["t" if number % 4 else None for number in range(500)],
}


def test_what_is_staged_goes_to_the_same_brokers_whoever_writes_it_and_in_which_order() -> None:
    contents, found = staged(ROWS)
    assert set(found) == {"a", "b", "c"}
    assert sorted(row for some in found.values() for row in some) == ROWS["body"]
    assert {name: len(some) for name, some in found.items()} == {
        name: content.count for name, content in contents.items()
    }
    backwards = {name: column[::-1] for name, column in ROWS.items()}
    halves = [
        {name: column[at : at + 250] for name, column in backwards.items()} for at in (0, 250)
    ]
    again_contents, again = staged(*halves)
    assert again == found
    assert again_contents == contents
    other, _ = staged({**ROWS, "tags": ["u"] * 500})
    assert not other["a"].is_like(contents["a"])


def test_with_one_broker_all_is_staged_there_and_counted() -> None:
    contents, found = staged({"body": ROWS["body"]}, brokers=["a"])
    assert sorted(found["a"]) == ROWS["body"]
    assert (contents["a"].count, contents["a"].topics) == (500, {"orders"})
