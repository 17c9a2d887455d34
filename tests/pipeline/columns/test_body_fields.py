"""Columns of a frame that become bodies."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime

import fastavro
import pyarrow as pa
import pytest
from tests.schema_registry import SchemaRegistry

from rocketpipe.pipeline.columns.body_fields import BodyFields, as_sent
from rocketpipe.pipeline.columns.write_rows import BadColumn, BadRow
from rocketpipe.pipeline.options.ddl import parse_schema
from rocketpipe.pipeline.options.encoding import Encoding
from rocketpipe.pipeline.spark_columns import spark_schema

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "city", "type": "string"},
            {"name": "cents", "type": "int"},
            {"name": "note", "type": ["null", "string"]},
        ],
    }
)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def fields(columns: str, topic: str | None = "orders", **given: str) -> BodyFields:
    encoding = Encoding.parse({name.lower(): value for name, value in given.items()})
    assert encoding is not None
    return BodyFields.of(encoding, spark_schema(parse_schema(columns)), topic)


def test_columns_of_messages_are_left_and_all_others_are_the_body() -> None:
    columns = "city STRING, tags STRING, cents BIGINT, queue_key STRING"
    assert as_sent(spark_schema(parse_schema(columns))).names == ["body", "tags", "queue_key"]
    how = pickle.loads(pickle.dumps(fields(columns, encode="json")))
    batch = pa.RecordBatch.from_pydict(
        {"city": ["a", None], "tags": ["t", None], "cents": [1, 2], "queue_key": ["k", "k"]}
    )
    sent = how.messages(batch)
    assert sent.schema.names == ["body", "tags", "queue_key"]
    assert sent.column("body").to_pylist() == [b'{"city":"a","cents":1}', b'{"cents":2}']
    assert sent.column("tags").to_pylist() == ["t", None]


def test_a_struct_called_body_may_have_fields_of_any_name() -> None:
    how = fields("body STRUCT<tags: STRING, n: INT>, tags STRING", encode="json")
    kind = pa.struct([("tags", pa.string()), ("n", pa.int32())])
    bodies = pa.array([{"tags": "in", "n": 1}], kind)
    sent = how.messages(pa.RecordBatch.from_arrays([bodies, pa.array(["out"])], ["body", "tags"]))
    assert sent.to_pylist() == [{"body": b'{"tags":"in","n":1}', "tags": "out"}]
    lost = pa.array([{"tags": "in", "n": 1}, None], kind)
    with pytest.raises(BadRow, match="of row 1 of this partition: is NULL"):
        how.messages(pa.RecordBatch.from_arrays([lost, pa.array(["o", "o"])], ["body", "tags"]))


def test_values_get_the_types_of_the_schema_or_the_row_is_named() -> None:
    how = fields("cents BIGINT, city STRING", encode="avro", encodeSchema=AVRO)
    assert how.fields.field("cents").type == pa.int32()
    sent = how.messages(pa.RecordBatch.from_pydict({"cents": [7], "city": ["a"]}))
    assert sent.column("body").to_pylist() == [b"\x02a\x0e\x00"]
    with pytest.raises(BadRow, match="'cents' of row 5 of this partition"):
        how.messages(pa.RecordBatch.from_pydict({"cents": [1 << 40], "city": ["a"]}), 5)
    with pytest.raises(BadRow, match="'body' of row 6 of this partition: cannot be avro"):
        how.messages(pa.RecordBatch.from_pydict({"cents": [1, 1], "city": ["a", None]}), 5)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("city STRING, cents INT, colour STRING", "'colour' is no field of the bodies' schema"),
        ("city STRING", "'cents' is missing: the bodies' schema has no default"),
        ("city STRING, cents ARRAY<INT>", "'cents' is list.*, which cannot be int32: cast it"),
        ("tags STRING", "'body' would be empty"),
    ],
)
def test_columns_that_are_not_of_the_schema_are_refused(columns: str, said: str) -> None:
    with pytest.raises(BadColumn, match=said):
        fields(columns, encode="avro", encodeSchema=AVRO)


def test_a_field_that_has_the_name_of_a_part_is_refused() -> None:
    with pytest.raises(BadColumn, match=r"'tags' is a field .* struct\(…\) AS body"):
        fields("n INT, tags STRING", encode="json", encodeSchema="n INT, tags STRING")


def test_with_a_registry_bodies_begin_with_the_id_of_its_schema(registry: SchemaRegistry) -> None:
    number = registry.register("orders-value", AVRO)
    how = fields("city STRING, cents INT", encode="avro", schemaRegistry=registry.url)
    sent = how.messages(pa.RecordBatch.from_pydict({"city": ["a"], "cents": [7]}))
    head = b"\0" + number.to_bytes(4, "big")
    assert sent.column("body").to_pylist() == [head + b"\x02a\x0e\x00"]


def test_moments_are_told_as_those_of_utc_whatever_the_zone_of_the_frame() -> None:
    moment = datetime(2026, 11, 17, 12, tzinfo=UTC)
    schema = json.dumps(
        {
            "type": "record",
            "name": "Click",
            "fields": [
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            ],
        }
    )
    for given in ({"encode": "json"}, {"encode": "avro", "encodeSchema": schema}):
        how = fields("at TIMESTAMP", **given)
        for zone in ("UTC", "Europe/Oslo"):
            column = pa.array([moment], pa.timestamp("us", zone))
            (body,) = how.messages(pa.RecordBatch.from_arrays([column], ["at"]))["body"].to_pylist()
            if given["encode"] == "json":
                assert datetime.fromisoformat(json.loads(body)["at"]) == moment
            else:
                found = fastavro.schemaless_reader(io.BytesIO(body), json.loads(schema))
                assert found == {"at": moment}
