"""A schema written as SQL writes it, without a session to ask: ``city STRING, amount DOUBLE``.

Spark reads such text in its JVM, which the process that plans a Python source cannot reach. This
reads the same text for the types that a decoded body can have:

    boolean  tinyint  smallint  int  bigint  float  double  decimal(p, s)  string  binary
    date  timestamp  timestamp_ntz  array<type>  map<type, type>  struct<name: type, …>

and what ``frame.schema`` gives of itself: ``simpleString()``, which is one struct, and ``json()``.
"""

from __future__ import annotations

import json
import re
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

MAX_DEPTH: Final = 32
MAX_DIGITS: Final = 38

_SIMPLE: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "byte": ByteType(),
    "tinyint": ByteType(),
    "short": ShortType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "bigint": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([^\W]\w*)|([<>(),:]))\s*")


class SchemaTextError(ValueError):
    """Text that is no schema; it says where."""


def parse_schema(text: str) -> StructType:
    """The schema that a text describes, as SQL or as JSON.

    Raises:
        SchemaTextError: If it describes none.
    """
    if text.lstrip().startswith("{"):
        try:
            return StructType.fromJson(json.loads(text))
        except Exception as error:  # Spark's reader of it fails in many ways
            raise SchemaTextError(f"no schema as JSON: {error}") from error
    if text.lstrip().startswith("StructType("):
        raise SchemaTextError("it is a schema of Python, and options are text: give schema.json()")
    fields = _Reader(text).columns()
    if not fields:
        raise SchemaTextError("it names no column")
    return StructType(fields)


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise SchemaTextError(f"{text[at : at + 10]!r} at {at} is not understood")
            self._tokens.append(found[1] or found[2] or found[3])
            at = found.end()
        self._tokens.append("")
        self._at = 0
        self._depth = 0

    def columns(self) -> list[StructField]:
        """All of the text: columns, or the one struct that they are."""
        if [word.lower() for word in self._tokens[:2]] != ["struct", "<"]:
            return self.fields("")
        self._at = 2
        found = self.fields(">")
        self._expect(">")
        if self._peek():
            raise SchemaTextError(f"{self._peek()!r} stands behind the struct")
        return found

    def fields(self, closing: str) -> list[StructField]:
        found: list[StructField] = []
        while self._peek() != closing:
            if found:
                self._expect(",")
            name = self._name()
            if self._peek() == ":":
                self._next()
            kind = self._kind()
            nullable = True
            if self._peek().lower() == "not":
                self._next()
                if self._next().lower() != "null":
                    raise SchemaTextError(f"NULL is missing after NOT at column {name!r}")
                nullable = False
            if any(name == each.name for each in found):
                raise SchemaTextError(f"column {name!r} is there twice")
            found.append(StructField(name, kind, nullable))
        return found

    def _kind(self) -> DataType:
        word = self._name().lower()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SchemaTextError(f"types are nested more than {MAX_DEPTH} deep")
        try:
            if word in _SIMPLE:
                return _SIMPLE[word]
            if word in ("decimal", "numeric", "dec"):
                return self._decimal()
            if word not in ("array", "map", "struct"):
                raise SchemaTextError(f"type {word!r} is not known")
            self._expect("<")
            kind: DataType
            if word == "array":
                kind = ArrayType(self._kind())
            elif word == "map":
                key = self._kind()
                self._expect(",")
                kind = MapType(key, self._kind())
            else:
                kind = StructType(self.fields(">"))
            self._expect(">")
            return kind
        finally:
            self._depth -= 1

    def _decimal(self) -> DecimalType:
        if self._peek() != "(":
            return DecimalType()
        self._next()
        numbers = [self._number()]
        if self._peek() == ",":
            self._next()
            numbers.append(self._number())
        self._expect(")")
        precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
        if not 1 <= precision <= MAX_DIGITS or scale > precision:
            raise SchemaTextError(f"decimal({precision}, {scale}) has no such digits")
        return DecimalType(precision, scale)

    def _number(self) -> int:
        word = self._next()
        if not (word.isascii() and word.isdigit() and len(word) < 4):
            raise SchemaTextError(f"{word!r} is not a number of digits")
        return int(word)

    def _name(self) -> str:
        word = self._next()
        if not word or word in "<>(),:":
            raise SchemaTextError(f"{word!r} stands where a name or type should")
        return word[1:-1].replace("``", "`") if word.startswith("`") else word

    def _expect(self, token: str) -> None:
        word = self._next()
        if word != token:
            raise SchemaTextError(f"{word or 'the end'!r} stands where {token!r} should")

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        word = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return word
