"""What bodies in Avro or Protobuf hold: a schema as it travels to tasks, and where it came from.

The schema itself travels, not the name of a file: it is read once, where the plan is made.

    avro         the schema's JSON
    protobuf     MESSAGE:BASE64, the full name of a message and a FileDescriptorSet with its file

A source may be written in one text, as the attribute ``body.schema`` of a topic and the flag of
``rocketpipe sql`` have it:

    avro:orders.avsc                                       a file; not in an attribute
    avro:{"type": "record", …}                             the schema itself
    avro:registry subject=orders-value                     the registry; the subject may be left out
    protobuf:orders.desc message=shop.Order
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

from rocketpipe.pipeline.formats.errors import BodySchemaError, NotRegistered
from rocketpipe.pipeline.formats.registry import checked_url, registry_at

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["avro", "protobuf"]
FORMATS: Final = ("avro", "protobuf")

_MAX_FILE: Final = 16 << 20
_PREFIX: Final = re.compile(r"\s*(avro|protobuf):\s*(.*)", re.DOTALL)
_EXTRA: Final = re.compile(r"^(.*\S)\s+(subject|message)=(\S+)$", re.DOTALL)
_REGISTRY: Final = "registry"


@dataclass(frozen=True, slots=True)
class BodySchema:
    """The reader's schema, and the registry whose ids bodies begin with, if they do."""

    format: Format
    text: str
    registry: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of a body; raises BodySchemaError if it has none."""
        return _schema(self.format, self.text)

    def columns(
        self, bodies: pa.Array, fields: Sequence[pa.Field], errors: dict[int, str]
    ) -> dict[str, pa.Array]:
        """Decode a batch; rows that have no such columns are noted in ``errors``.

        Raises:
            RegistryError: If the registry cannot be asked what an id means.
        """
        decoded: dict[str, pa.Array] = _decoder(self, tuple(fields)).columns(bodies, errors)
        return decoded


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """Where the schema of bodies is."""

    format: Format
    #: The schema itself, as `BodySchema` has it.
    text: str | None = None
    file: str | None = None
    registry: str | None = None
    subject: str | None = None
    message: str | None = None

    @classmethod
    def parse(cls, text: str, registry: str | None) -> Self | None:
        """What one text says, with the registry that goes with it; None if it is of JSON.

        Raises:
            BodySchemaError: If it lacks something.
        """
        found = _PREFIX.fullmatch(text)
        if found is None:
            return None
        kind, where = cast("Format", found[1]), found[2].strip()
        extra: dict[str, str] = {}
        if not where.startswith("{"):
            while (more := _EXTRA.fullmatch(where)) is not None:
                where = more[1]
                extra[more[2]] = more[3]
        if where == _REGISTRY:
            if registry is None:
                raise BodySchemaError(text, "name the registry with --registry URL")
            return cls(kind, registry=registry, **extra)
        if not where:
            raise BodySchemaError(text, f"write {kind}:FILE, {kind}:{_REGISTRY} or {kind}:SCHEMA")
        is_text = where.startswith("{") if kind == "avro" else ":" in where
        place = {"text": where} if is_text else {"file": where}
        return cls(kind, registry=registry, **place, **extra)

    def load(self, topic: str | None) -> BodySchema:
        """Read the schema; ``topic`` is what the subject is called after where none is named.

        Raises:
            BodySchemaError: If it is not there, or none.
            RegistryError: If the registry does not answer.
        """
        registry = None if self.registry is None else checked_url(self.registry)
        if self.text is not None:
            text = self.text
        elif self.file is not None:
            text = self._of_file(Path(self.file))
        elif registry is not None:
            text = self._of_registry(registry, topic)
        else:
            raise BodySchemaError(
                f"decode={self.format}",
                "name the schema: schemaFile (--schema-file) or schemaRegistry (--registry)",
            )
        loaded = BodySchema(self.format, text, registry)
        assert loaded.schema.names  # what is wrong with it shows here
        return loaded

    def _of_file(self, path: Path) -> str:
        try:
            if path.stat().st_size > _MAX_FILE:
                raise BodySchemaError(str(path), f"has more than {_MAX_FILE} bytes")
            content = path.read_bytes()
        except OSError as error:
            raise BodySchemaError(
                str(path), f"cannot be read ({error.strerror}): give the schema's file"
            ) from error
        if self.format == "protobuf":
            from rocketpipe.pipeline.formats.protobuf_schema import files_in

            return self._kept(files_in(content, str(path)))
        from rocketpipe.pipeline.formats.avro_schema import AvroSchema

        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BodySchemaError(str(path), "is no text: give the .avsc file") from None
        AvroSchema.of(text, str(path))
        return text

    def _of_registry(self, url: str, topic: str | None) -> str:
        subject = self.subject or (None if topic is None else f"{topic}-value")
        if subject is None:
            raise BodySchemaError(
                "schema registry", "several topics are read: name the subject of their schema"
            )
        registry = registry_at(url)
        try:
            found = registry.version(subject)
        except NotRegistered as error:
            raise BodySchemaError(
                f"schema registry {url}",
                f"there is no subject {subject!r}: name it with schemaSubject (--subject)",
            ) from error
        if found.kind != self.format.upper():
            raise BodySchemaError(
                f"subject {subject!r}",
                f"is {found.kind}, not {self.format.upper()}: decode it as what it is",
            )
        if self.format == "avro":
            from rocketpipe.pipeline.formats.avro_bodies import self_contained

            return self_contained(registry, found)
        from rocketpipe.pipeline.formats.protobuf_schema import file_of

        used = {**registry.references(found), f"{subject}.proto": found}
        files = [file_of(each.text, name) for name, each in used.items()]
        if None in files:
            raise BodySchemaError(
                f"subject {subject!r}",
                "the registry gives it as text alone: compile it ahead, and give the file with "
                "schemaFile (--schema-file)",
            )
        return self._kept(files)

    def _kept(self, files: Sequence[Any]) -> str:
        from rocketpipe.pipeline.formats.protobuf_schema import kept_text, main_message, set_of

        return kept_text(set_of(files), main_message(files, self.message))


@lru_cache(maxsize=16)
def _schema(kind: Format, text: str) -> pa.Schema:
    if kind == "avro":
        from rocketpipe.pipeline.formats.avro_schema import AvroSchema

        return AvroSchema.of(text).schema
    from rocketpipe.pipeline.formats.protobuf_schema import descriptor_of, schema_of

    return schema_of(descriptor_of(text))


@lru_cache(maxsize=16)
def _decoder(schema: BodySchema, fields: tuple[pa.Field, ...]) -> Any:
    if schema.format == "avro":
        from rocketpipe.pipeline.formats.avro_bodies import AvroBodies

        return AvroBodies(schema.text, schema.registry, fields)
    from rocketpipe.pipeline.formats.protobuf_bodies import ProtobufBodies

    return ProtobufBodies(schema.text, schema.registry, fields)
