"""Fields of JSON bodies that are plain: numbers, texts and truths, of many bodies in one pass.

``json_fields`` is the definition. What is read here comes out as it says; a body of which that is
not certain at a glance is left, and read as ever: one with an escape in a text that was asked for,
a value of another type or out of range, no object, no UTF-8. Where nothing is compiled all are
left, as Arrow reads them quicker than Python does. ``_flat_json.pyx`` is the compiled twin; see
``rocketpipe.compiled``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from rocketpipe import compiled
from rocketpipe.pipeline.columns.byte_runs import Mask

_BOOLEAN, _WHOLE, _FLOAT, _TEXT = range(4)
_MAX_FIELDS: Final = 64
#: So much of what was taken for texts may stay empty, or they are copied.
_SPARE: Final = 2


def flat_fields(
    data: Any,
    edges: Any,
    names: tuple[bytes, ...],
    kinds: bytes,
    bits: bytes,
    values: Any,
    valid: Any,
    text_edges: Any,
    text_data: Any,
    read: Any,
) -> None:
    """Read fields of the bodies that lie between edges of the data, and tell which were ``read``.

    Each field has its row in ``values``, or, as a text, one in ``text_edges`` and ``text_data``,
    and one in ``valid`` that tells where it is not NULL; of whole numbers ``bits`` says how many
    they have.
    """
    read[:] = 0


def flat_columns(bodies: pa.Array, schema: pa.Schema) -> tuple[pa.RecordBatch, Mask] | None:
    """The fields of bodies, and which bodies were read; those of all others say nothing.

    None if there is a field that is not plain, or no body was read.
    """
    found = [_kind_of(field.type) for field in schema]
    kinds = [kind for kind in found if kind is not None]
    rows = len(bodies)
    if bodies.null_count or not rows or len(kinds) < len(found) or not 0 < len(kinds) < _MAX_FIELDS:
        return None
    _, edges, data = bodies.buffers()
    places = np.frombuffer(edges, np.int32, rows + 1, 4 * bodies.offset)
    texts, length = kinds.count(_TEXT), int(places[-1] - places[0])
    values = np.empty((len(kinds), rows), np.int64)
    valid = np.empty((len(kinds), rows), np.uint8)
    text_edges = np.empty((texts, rows + 1), np.int32)
    text_data = np.empty((texts, length + 1), np.uint8)
    read = np.empty(rows, np.uint8)
    flat_fields(
        np.frombuffer(b"" if data is None else data, np.uint8),
        places,
        tuple(name.encode() for name in schema.names),
        bytes(kinds),
        bytes(field.type.bit_width if pa.types.is_integer(field.type) else 64 for field in schema),
        values,
        valid,
        text_edges,
        text_data,
        read,
    )
    if not read.any():
        return None
    columns, text = [], 0
    for number, (kind, field) in enumerate(zip(kinds, schema, strict=True)):
        there = valid[number]
        if kind == _TEXT:
            columns.append(_texts(text_edges[text], text_data[text], there))
            text += 1
        else:
            columns.append(_numbers(values[number], there, kind, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema), read.view(np.bool_)


def _kind_of(kind: pa.DataType) -> int | None:
    types = pa.types
    if types.is_boolean(kind):
        return _BOOLEAN
    if types.is_signed_integer(kind):
        return _WHOLE
    if types.is_float32(kind) or types.is_float64(kind):
        return _FLOAT
    return _TEXT if types.is_string(kind) else None


def _validity(there: Any) -> pa.Buffer | None:
    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))


def _numbers(values: Any, there: Any, kind: int, wanted: pa.DataType) -> pa.Array:
    if kind == _BOOLEAN:
        bits = pa.py_buffer(np.packbits(values == 1, bitorder="little"))
        return pa.Array.from_buffers(wanted, values.size, [_validity(there), bits])
    if kind == _FLOAT:
        # What is too large for FLOAT is infinite, as for Spark; where nothing is, anything may be.
        with np.errstate(over="ignore", invalid="ignore"):
            typed = values.view(np.float64).astype(wanted.to_pandas_dtype())
    else:
        typed = values.astype(wanted.to_pandas_dtype())
    return pa.Array.from_buffers(wanted, values.size, [_validity(there), pa.py_buffer(typed)])


def _texts(edges: Any, data: Any, there: Any) -> pa.Array:
    used = data[: int(edges[-1])]
    if _SPARE * used.size < data.size:
        used = used.copy()
    buffers = [_validity(there), pa.py_buffer(edges), pa.py_buffer(used)]
    return pa.Array.from_buffers(pa.string(), edges.size - 1, buffers)


compiled.take_over(globals(), "rocketpipe.pipeline.columns._flat_json")
