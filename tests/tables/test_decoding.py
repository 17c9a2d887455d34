"""Messages into rows and bad rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from rocketpipe.tables.columns import BAD_ROWS, MOST_COLUMNS
from rocketpipe.tables.decoding import Decoding, RowDecoder
from rocketpipe.tables.spec import TableSpec

Messages = Callable[..., pa.RecordBatch]


def decoder(schema: str | None = "city STRING, cents INT", **fields: Any) -> RowDecoder:
    spec = TableSpec(
        **{
            "topic": "orders",
            "name_server": "127.0.0.1:1",
            "decode": "json" if schema else "none",
            "schema": schema,
        }
        | fields
    )
    return RowDecoder(Decoding.of(spec))


def test_every_message_is_a_row_or_a_bad_row(messages: Messages) -> None:
    bodies = [
        b'{"city": "Oslo", "cents": 5}',
        b"nonsense",
        b'{"city": "Lima", "cents": "much"}',
        None,
        b'{"cents": null, "more": 1}',
    ]
    how = decoder(partition_by="date")
    rows, bad = how.split(messages(bodies, first=10))
    assert rows.schema == how.how.columns.schema
    assert rows.column("queue_offset").to_pylist() == [10, 14]
    assert rows.column("city").to_pylist() == ["Oslo", None]
    assert rows.column("date").to_pylist() == [date(2026, 5, 1)] * 2
    assert bad.schema == BAD_ROWS
    assert bad.column("queue_offset").to_pylist() == [11, 12, 13]
    assert bad.column("body").to_pylist() == [bodies[1], bodies[2], None]
    assert bad.column("topic").to_pylist() == ["orders"] * 3
    said = bad.column("error").to_pylist()
    assert "not JSON" in said[0]
    assert said[1] == 'cents: "much" does not fit'
    assert "cannot be read" in said[2]


def test_bodies_may_be_left_as_they_are_or_be_text(messages: Messages) -> None:
    rows, bad = decoder(None).split(messages([b"\xff", b"a", None]))
    assert rows.column("body").to_pylist() == [b"\xff", b"a"]
    assert bad.num_rows == 1
    rows, bad = decoder(None, decode="text").split(messages([b"\xff", b"a"]))
    assert rows.column("text").to_pylist() == ["a"]
    assert bad.column("error").to_pylist() == ["not UTF-8 at byte 0"]


def test_null_in_a_column_that_takes_none_is_bad(messages: Messages) -> None:
    rows, bad = decoder("city STRING NOT NULL").split(messages([b'{"city": "a"}', b"{}"]))
    assert rows.column("city").to_pylist() == ["a"]
    assert bad.column("error").to_pylist() == ["city: is NULL, and the column is NOT NULL"]


def test_fields_that_nobody_named_are_passed_over_unless_asked_for(messages: Messages) -> None:
    how = decoder()
    rows, bad = how.split(messages([b'{"city": "a", "note": 1}']))
    assert (rows.num_rows, bad.num_rows, how.new_fields) == (1, 0, {})


def test_rows_with_new_fields_can_be_put_aside(messages: Messages) -> None:
    how = decoder(new_columns="quarantine")
    rows, bad = how.split(messages([b'{"city": "a", "z": 1, "note": null}', b'{"cents": 1}']))
    assert rows.column("cents").to_pylist() == [1]
    assert bad.column("error").to_pylist() == ["new columns: note, z"]


@pytest.mark.parametrize("rule", ["add", "fail"])
def test_new_fields_are_found_with_their_types_and_where(messages: Messages, rule: str) -> None:
    how = decoder(new_columns=rule)
    bodies = [
        b'{"city": "a"}',
        b'{"n": 1, "nothing": null, "mixed": 1}',
        b'{"n": 2.5, "mixed": "x", "why": true}',
    ]
    how.split(messages(bodies, first=5))
    found = {name: str(each.kind) for name, each in how.new_fields.items()}
    assert found == {"n": "double", "mixed": "string", "why": "bool"}
    assert how.new_fields["n"].place == "message 6 in queue 2 of broker 'broker-a'"


def test_a_field_that_cannot_be_a_column_makes_its_row_bad(messages: Messages) -> None:
    how = decoder(new_columns="add")
    rows, bad = how.split(messages([b'{"tags": 1, "fine": 1}', b'{"City": "x"}', b'{"a b": 1}']))
    assert rows.num_rows == 0
    assert how.new_fields == {}
    assert [text.split(":")[0][:5] for text in bad.column("error").to_pylist()] == ["field"] * 3


def test_names_may_have_quotes_and_backslashes(messages: Messages) -> None:
    names = ['quo"te', "back\\slash", "naïve", "键", "a.b", "x" * 255]
    body = json.dumps(dict.fromkeys(names, 1)).encode()
    how = decoder(new_columns="add")
    how.split(messages([body]))
    assert list(how.new_fields) == names
    schema = ", ".join(f"`{name}` BIGINT" for name in names)
    how = decoder(schema, new_columns="add")
    rows, bad = how.split(messages([body, b'{"more": 1}']))
    assert (rows.num_rows, bad.num_rows, list(how.new_fields)) == (2, 0, ["more"])
    assert rows.column('quo"te').to_pylist() == [1, None]


def test_fields_whose_names_are_values_do_not_fill_the_memory(messages: Messages) -> None:
    how = decoder(new_columns="add")
    how.split(messages([b'{"f%d": 1}' % number for number in range(3 * MOST_COLUMNS)]))
    assert len(how.new_fields) == MOST_COLUMNS + 1


def test_properties_are_kept_where_they_are_asked_for(messages: Messages) -> None:
    batch = messages([b"one", None])
    kind = pa.map_(pa.string(), pa.string())
    told = pa.array([[("city", "Oslo")], [("city", "Lima")]], kind)
    sent = batch.column("store_timestamp")
    batch = batch.append_column("properties", told).append_column("born_timestamp", sent)
    rows, bad = decoder(None, properties=True).split(batch)
    assert rows.column("properties").to_pylist() == [[("city", "Oslo")]]
    assert rows.column("born_timestamp").to_pylist() == sent.to_pylist()[:1]
    assert bad.num_rows == 1


def test_bodies_in_avro_are_rows_or_bad_rows_as_those_in_json_are(messages: Messages) -> None:
    schema = json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "city", "type": "string"}, {"name": "raw", "type": "bytes"}],
        }
    )
    how = decoder(schema, decode="avro", partition_by="city")
    rows, bad = how.split(messages([b"\x08Oslo\x02\xff", b"{}", None, b"\x08Lima\x00"]))
    assert rows.column("city").to_pylist() == ["Oslo", "Lima"]
    assert rows.column("raw").to_pylist() == [b"\xff", b""]
    assert bad.column("queue_offset").to_pylist() == [1, 2]
    said = bad.column("error").to_pylist()
    assert said[0].startswith("not Avro: ")
    assert "cannot be read" in said[1]
