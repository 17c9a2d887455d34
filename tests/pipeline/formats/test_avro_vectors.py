"""Records of a batch at once come out as those that fastavro reads."""

from __future__ import annotations

import json
import random
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.schema_registry import SchemaRegistry, framed

from rocketpipe.pipeline.formats.avro_bodies import AvroBodies
from rocketpipe.pipeline.formats.avro_schema import AvroSchema
from rocketpipe.pipeline.formats.avro_vectors import PADDING, Records, octets_of

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "city", "type": "string"},
        {"name": "cents", "type": "int"},
        {"name": "big", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": [{"type": "int", "logicalType": "date"}, "null"]},
        {"name": "ratio", "type": "double"},
        {"name": "little", "type": "float"},
        {"name": "paid", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
        {"name": "nothing", "type": "null"},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {
            "name": "inner",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Inner",
                    "fields": [
                        {"name": "x", "type": ["null", "long"]},
                        {"name": "color", "type": "Color"},
                    ],
                },
            ],
        },
        {"name": "more", "type": "Inner"},
    ],
}
PLAIN = json.loads(
    json.dumps(SCHEMA)
    .replace('{"type": "long", "logicalType": "timestamp-millis"}', '"long"')
    .replace('{"type": "int", "logicalType": "date"}', '"int"')
)


def order(chance: random.Random) -> dict[str, Any]:
    def inner() -> dict[str, Any]:
        return {"x": chance.choice([None, chance.getrandbits(60)]), "color": "BLUE"}

    return {
        "city": chance.choice(["", "Oslo", "Ürümqi", "x" * 200]),
        "cents": chance.randint(-(1 << 31), (1 << 31) - 1),
        "big": chance.choice([0, -1, (1 << 63) - 1, -(1 << 63)]),
        "note": chance.choice([None, "hi"]),
        "at": chance.randint(-(10**12), 10**12),
        "day": chance.choice([None, chance.randint(0, 20000)]),
        "ratio": chance.random(),
        "little": 0.5,
        "paid": chance.random() < 0.5,
        "raw": chance.randbytes(chance.randint(0, 5)),
        "hash": chance.randbytes(3),
        "nothing": None,
        "color": chance.choice(["RED", "BLUE"]),
        "inner": chance.choice([None, inner()]),
        "more": inner(),
    }


def written(value: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(PLAIN), value)
    return out.getvalue()


def damaged(body: bytes, chance: random.Random) -> bytes:
    match chance.randint(0, 3):
        case 0:
            return body[: chance.randint(0, len(body))]
        case 1:
            return body + chance.randbytes(chance.randint(1, 3))
        case 2:
            at = chance.randrange(len(body))
            return body[:at] + chance.randbytes(1) + body[at + 1 :]
    return chance.randbytes(chance.randint(0, 60))


def both(bodies: pa.Array) -> list[tuple[dict[str, list[Any]], dict[int, str]]]:
    """What comes out at once, and one by one."""
    fields = list(AvroSchema.of(json.dumps(SCHEMA)).schema)
    found = []
    for is_quick in (True, False):
        decoder = AvroBodies(json.dumps(SCHEMA), None, fields)
        assert decoder._records is not None
        if not is_quick:
            decoder._records = None
        errors: dict[int, str] = {}
        columns = decoder.columns(bodies, errors)
        assert [column.type for column in columns.values()] == [field.type for field in fields]
        found.append(({name: each.to_pylist() for name, each in columns.items()}, errors))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_comes_out_as_its_bodies_do_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    bodies: list[bytes | None] = [written(order(chance)) for _ in range(60)]
    if seed % 4:
        for row in range(0, 60, 7):
            bodies[row] = damaged(bodies[row] or b"", chance)
        bodies[chance.randrange(60)] = None
    array = pa.array(bodies, pa.binary())
    [at_once, alone] = both(array)
    assert at_once == alone
    assert bool(at_once[1]) == bool(seed % 4)
    [at_once, alone] = both(array.slice(5, 20))
    assert at_once == alone


def test_what_came_out_is_told_from_what_did_not() -> None:
    schema = AvroSchema.of(json.dumps(SCHEMA))
    records = Records(schema.parsed, {name: each[1] for name, each in schema.columns.items()})
    good = written(order(random.Random(1)))
    found = octets_of(pa.array([good, good[:-1], good + b"\x00", b"", good], pa.binary()))
    assert found is not None
    data, start, end = found
    assert data.size == end[-1] + PADDING
    columns, came = records.read(data, start, end)
    assert came.tolist() == [True, False, False, False, True]
    assert columns["cents"][0] == columns["cents"][4]


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        ["null", "int", "string"],
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
    ],
)
def test_what_is_not_read_at_once_is_left_to_fastavro(kind: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
    assert AvroBodies(json.dumps(schema), None, [])._records is None


def test_bodies_of_the_readers_own_schema_are_read_at_once_by_their_id() -> None:
    body = written(order(random.Random(3)))
    with SchemaRegistry() as registry:
        number = registry.register("orders-value", SCHEMA)
        older = SCHEMA | {"fields": SCHEMA["fields"][:2]}
        other = registry.register("orders-value", older)
        fields = list(AvroSchema.of(json.dumps(SCHEMA)).schema)
        decoder = AvroBodies(json.dumps(SCHEMA), registry.url, fields)
        bodies = [framed(number, body), framed(99, body), body, framed(other, b"\x00\x00"), b"\x00"]
        array = pa.array([*bodies, framed(number, body)], pa.binary())
        [(rows, _)] = decoder._at_once(array)
        assert list(rows) == [0, 5]
        errors: dict[int, str] = {}
        columns = decoder.columns(array, errors)
    assert columns["city"].is_valid().to_pylist() == [True, False, False, False, False, True]
    assert errors.keys() == {1, 2, 3, 4}
