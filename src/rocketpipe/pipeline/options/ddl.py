"""A schema written as SQL writes it, without a session to ask: ``city STRING, amount DOUBLE``.

Spark reads such text in its JVM, which the process that plans a Python source cannot reach. This
reads the same text for the types that a decoded body can have:

    boolean  tinyint  smallint  int  bigint  float  double  decimal(p, s)  string  binary
    date  timestamp  timestamp_ntz  array<type>  map<type, type>  struct<name: type, …>

and what ``frame.schema`` gives of itself: ``simpleString()``, which is one struct, and ``json()``.
What comes out is Arrow's: columns may be NOT NULL, what is inside of them is not asked that.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

# Spark's daemon imports this before it forks, and pyarrow starts threads: so it comes when used.

MAX_DEPTH: Final = 32
MAX_DIGITS: Final = 38
#: What DECIMAL alone is.
_DEFAULT_DECIMAL: Final = (10, 0)

#: The names that a type goes by, the first of them as Spark shows it; JSON has others.
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("boolean",),
    "int8": ("tinyint", "byte"),
    "int16": ("smallint", "short"),
    "int32": ("int", "integer"),
    "int64": ("bigint", "long"),
    "float": ("float", "real"),
    "double": ("double",),
    "string": ("string",),
    "binary": ("binary",),
    "date32[day]": ("date",),
    "timestamp[us, tz=UTC]": ("timestamp", "timestamp_ltz"),
    "timestamp[us]": ("timestamp_ntz",),
}
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([^\W]\w*)|([<>(),:]))\s*")
_WORD: Final = re.compile(r"[^\W]\w*")


class SchemaTextError(ValueError):
    """Text that is no schema; it says where."""


def parse_schema(text: str) -> pa.Schema:
    """The schema that a text describes, as SQL or as JSON.

    Raises:
        SchemaTextError: If it describes none.
    """
    import pyarrow as pa

    if text.lstrip().startswith("{"):
        try:
            return pa.schema(_json_fields(json.loads(text), 0))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SchemaTextError(f"no schema as JSON: {error!r}") from error
    if text.lstrip().startswith("StructType("):
        raise SchemaTextError("it is a schema of Python, and options are text: give schema.json()")
    fields = _Reader(text).columns()
    if not fields:
        raise SchemaTextError("it names no column")
    return pa.schema(fields)


def sql_schema(schema: pa.Schema) -> str:
    """Columns as SQL writes them, and `parse_schema` reads them."""
    return ", ".join(
        f"{_quoted(field.name)} {sql_type(field.type)}{'' if field.nullable else ' NOT NULL'}"
        for field in schema
    )


def sql_type(kind: pa.DataType) -> str:
    """A type as SQL calls it; one that SQL has no name for, as Arrow does."""
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{sql_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{sql_type(kind.key_type)},{sql_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        inside = ",".join(f"{_quoted(field.name)}:{sql_type(field.type)}" for field in kind)
        return f"struct<{inside}>"
    return _NAMES.get(str(kind), (str(kind),))[0]


def _quoted(name: str) -> str:
    return name if _WORD.fullmatch(name) else "`" + name.replace("`", "``") + "`"


@cache
def _simple() -> dict[str, pa.DataType]:
    import pyarrow as pa

    kinds = [
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
        *(pa.string(), pa.binary(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")),
    ]
    return {name: kind for kind in kinds for name in _NAMES[str(kind)]}


def _json_fields(node: Any, depth: int) -> list[pa.Field]:
    """The fields of a struct as Spark writes it in JSON."""
    import pyarrow as pa

    if node["type"] != "struct":
        raise SchemaTextError(f"{node['type']!r} is no struct")
    return [
        pa.field(each["name"], _json_kind(each["type"], depth), nullable=each.get("nullable", True))
        for each in node["fields"]
    ]


def _json_kind(node: Any, depth: int) -> pa.DataType:
    import pyarrow as pa

    if depth > MAX_DEPTH:
        raise SchemaTextError(f"types are nested more than {MAX_DEPTH} deep")
    if isinstance(node, str):
        return _Reader(node).only_kind()
    if node["type"] == "array":
        return pa.list_(_json_kind(node["elementType"], depth + 1))
    if node["type"] == "map":
        key, value = (_json_kind(node[name], depth + 1) for name in ("keyType", "valueType"))
        return pa.map_(key, value)
    fields = _json_fields(node, depth + 1)
    return pa.struct([field.with_nullable(True) for field in fields])


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

    def columns(self) -> list[pa.Field]:
        """All of the text: columns, or the one struct that they are."""
        if [word.lower() for word in self._tokens[:2]] != ["struct", "<"]:
            return self.fields("")
        self._at = 2
        found = self.fields(">")
        self._expect(">")
        if self._peek():
            raise SchemaTextError(f"{self._peek()!r} stands behind the struct")
        return found

    def only_kind(self) -> pa.DataType:
        """All of the text: one type."""
        kind = self._kind()
        if self._peek():
            raise SchemaTextError(f"{self._peek()!r} stands behind the type")
        return kind

    def fields(self, closing: str) -> list[pa.Field]:
        import pyarrow as pa

        found: list[pa.Field] = []
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
            found.append(pa.field(name, kind, nullable=nullable))
        return found

    def _kind(self) -> pa.DataType:
        import pyarrow as pa

        word = self._name().lower()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SchemaTextError(f"types are nested more than {MAX_DEPTH} deep")
        try:
            if word in _simple():
                return _simple()[word]
            if word in ("decimal", "numeric", "dec"):
                return self._decimal()
            if word not in ("array", "map", "struct"):
                raise SchemaTextError(f"type {word!r} is not known")
            self._expect("<")
            if word == "array":
                kind = pa.list_(self._kind())
            elif word == "map":
                key = self._kind()
                self._expect(",")
                kind = pa.map_(key, self._kind())
            else:
                kind = pa.struct([each.with_nullable(True) for each in self.fields(">")])
            self._expect(">")
            return kind
        finally:
            self._depth -= 1

    def _decimal(self) -> pa.DataType:
        import pyarrow as pa

        if self._peek() != "(":
            return pa.decimal128(*_DEFAULT_DECIMAL)
        self._next()
        numbers = [self._number()]
        if self._peek() == ",":
            self._next()
            numbers.append(self._number())
        self._expect(")")
        precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
        if not 1 <= precision <= MAX_DIGITS or scale > precision:
            raise SchemaTextError(f"decimal({precision}, {scale}) has no such digits")
        return pa.decimal128(precision, scale)

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
