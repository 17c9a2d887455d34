"""The schema of bodies in Avro or Protobuf: found when it is asked for, kept with the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.formats.body_schema import SchemaSource
from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.tables.spec import TableSpec

#: What says where a schema is, and is not itself kept with a table.
PLACES: Final = ("schema_file", "subject", "message")


def with_schema(
    given: Mapping[str, Any], topic: str | None, there: TableSpec | None
) -> dict[str, Any]:
    """What is asked of a table, with the schema itself in the place of where it is.

    A table that is there keeps its schema until another is asked for.

    Raises:
        ConfigError: If what is named there is no schema, or does not go together.
        RegistryError: If the registry does not answer.
    """
    asked = dict(given)
    where = {name: asked.pop(name) for name in PLACES if name in asked}
    decode = asked.get("decode", None if there is None else there.decode)
    if not where and "registry" not in asked:
        return asked
    if decode not in ("avro", "protobuf"):
        named = f"--{next(iter(where), 'registry').replace('_', '-')}"
        raise ConfigError(named, "is for Avro and Protobuf: add --decode avro or protobuf")
    if "schema" in asked and where:
        raise ConfigError("--schema", "either the schema itself or where it is, not both")
    source = SchemaSource(
        decode,
        text=asked.get("schema"),
        file=where.get("schema_file"),
        registry=asked.get("registry", None if there is None else there.registry),
        subject=where.get("subject"),
        message=where.get("message"),
    )
    try:
        found = source.load(topic or (None if there is None else there.topic))
    except BodySchemaError as error:
        raise ConfigError("--decode", str(error)) from error
    return asked | {"schema": found.text} | ({"registry": found.registry} if found.registry else {})
