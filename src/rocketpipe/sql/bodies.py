"""What the bodies of a topic hold, as a flag or the topic's own attribute says.

city STRING, cents INT                        JSON
avro:…, protobuf:…                            as `rocketpipe.pipeline.formats.body_schema` has it
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketpipe.pipeline.formats.body_schema import SchemaSource
from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.options.ddl import parse_schema, sql_schema


@dataclass(frozen=True, slots=True)
class TopicBodies:
    """How bodies become columns."""

    #: The options with which the connector decodes them.
    options: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    #: The columns that rows can be inserted with, as SQL writes them.
    insertable: str | None = None
    #: The options with which the connector makes bodies of them; none: JSON.
    encoding: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, text: str, topic: str, *, registry: str | None = None, has_files: bool = True
    ) -> TopicBodies:
        """What a text says; files only of who may name them, which a topic's attribute may not.

        Raises:
            BodySchemaError: If it names a schema that is not there, or none.
            SchemaTextError: If it is no schema.
            RegistryError: If the registry does not answer.
        """
        source = SchemaSource.parse(text, registry)
        if source is None:
            columns = tuple(parse_schema(text).names)
            return cls({"decode": "json", "decodeSchema": text}, columns, text)
        if source.file is not None and not has_files:
            raise BodySchemaError(
                text, f"a topic names no files: keep {source.format}:registry, or the schema itself"
            )
        loaded = source.load(topic)
        options = {"decode": loaded.format, "decodeSchema": loaded.text}
        if loaded.registry is not None:
            options["schemaRegistry"] = loaded.registry
        encoding: dict[str, str] = {"encode": loaded.format}
        if loaded.registry is None:
            encoding["encodeSchema"] = loaded.text
        else:
            encoding["schemaRegistry"] = loaded.registry
            if source.subject is not None:
                encoding["schemaSubject"] = source.subject
        columns = tuple(loaded.schema.names)
        return cls(options, columns, sql_schema(loaded.schema), encoding)
