"""Rows that are inserted into a topic: which value is which part of a message.

A topic whose bodies have a schema takes its columns, and sends them as that says; one without takes
``body``. Behind them come the other parts of a message, which may be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rocketpipe.pipeline.options.ddl import parse_schema, sql_type
from rocketpipe.sql.bodies import TopicBodies
from rocketpipe.sql.errors import StatementFailed
from rocketpipe.sql.statements import Insert, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BODY: Final = "body"
#: The parts of a message that may be given beside its body, in order.
OTHERS: Final = ("tags", "keys", "properties", "queue_key", "delay_level")


def column_names(insert: Insert, given: Sequence[str], fields: Sequence[str]) -> list[str]:
    """Which column each value is for, of a query whose own columns are ``given``.

    Raises:
        StatementFailed: If there is no such column, or one twice, or values do not match them.
    """
    order = [*(fields or [BODY]), *OTHERS]
    if insert.by_name:
        wanted: Sequence[str] = given
    elif insert.columns is not None:
        wanted = insert.columns
        if len(wanted) != len(given):
            raise StatementFailed(f"{len(wanted)} columns are named, and {len(given)} are given")
    else:
        wanted = order[: len(given)]
        if len(given) > len(order):
            raise StatementFailed(f"{len(given)} values are given, for {', '.join(order)}")
    folded = {name.lower(): name for name in [*order, BODY]}
    for name in wanted:
        if name.lower() not in folded:
            raise StatementFailed(f"a row has no column {name!r} to insert: {', '.join(order)}")
    names = [folded[name.lower()] for name in wanted]
    if len(set(names)) < len(names):
        raise StatementFailed(f"a column is named twice: {', '.join(names)}")
    if BODY in names and BODY not in fields and any(name in fields for name in names):
        raise StatementFailed(f"insert either {BODY} or the columns of its schema, not both")
    if BODY not in names and not any(name in fields for name in names):
        raise StatementFailed(f"nothing is given for the body: {', '.join(order)}")
    return names


def has_fields(frame: DataFrame) -> bool:
    """Whether the body of messages to write is still in columns."""
    from pyspark.sql.types import StructType

    return isinstance(frame.schema[BODY].dataType, StructType)


def messages(frame: DataFrame, insert: Insert, bodies: TopicBodies | None) -> DataFrame:
    """The rows of a query as messages to write, with a body that is a struct if it is no JSON.

    Raises:
        StatementFailed: If its columns are not those of a message.
    """
    from pyspark.sql.types import NullType

    schema = None if bodies is None else bodies.insertable
    fields = list(parse_schema(schema)) if schema else []
    names = column_names(insert, frame.columns, [field.name for field in fields])
    numbered = frame.toDF(*(f"c{number}" for number in range(len(names))))
    places = {name: f"c{number}" for number, name in enumerate(names)}
    parts = [
        f"{places[name]} AS {name}"
        for name in OTHERS
        if name in places and not isinstance(numbered.schema[places[name]].dataType, NullType)
    ]
    if BODY in places and BODY not in {field.name for field in fields}:
        return numbered.selectExpr(f"{places[BODY]} AS {BODY}", *parts)
    values = ", ".join(
        f"CAST({places[field.name]} AS {sql_type(field.type)}) AS {quoted(field.name)}"
        for field in fields
        if field.name in places
    )
    made = f"struct({values})" if bodies and bodies.encoding else f"to_json(struct({values}))"
    return numbered.selectExpr(f"{made} AS {BODY}", *parts)
