"""A tree of fastjson's dialect into typed values.

``shape_of`` looks at a type once and keeps the recipe. A recipe is lenient where Java's peers are:

    whole numbers     7, 7.0, "7"            text         also numbers and truth values
    truth values      true, 1, "true"        enums        name in any letter case, or ordinal
    object keys       {…}:v or "{…}":v       null         the field's default, if it has one

References (``{"$ref":"$.a.b"}``) are followed when a value is taken, so one in a field nobody
reads costs nothing; how far they may lead altogether is bounded.
"""

from __future__ import annotations

import base64
import binascii
import enum
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from rocketpipe.protocol.json_dialect import (
    DialectError,
    Items,
    Members,
    Real,
    Tree,
    java_text,
    key_text,
    parse,
)

_MAX_FIT_DEPTH: Final = 160  # a reference adds a step without adding a level
_MAX_BORROWED: Final = 100_000

_Fit = Callable[["Fitting", Tree, int, tuple["Members | Items", ...]], Any]


@dataclass(slots=True, eq=False)
class Shape:
    """How values of one type are taken from a tree; ``None`` means null, whatever the type."""

    fit: _Fit
    #: msgspec reads this type's strict JSON exactly as we would.
    plain: bool = True
    decoder: msgspec.json.Decoder[Any] | None = None


class Fitting:
    """One tree on its way to a typed value."""

    def __init__(self, root: Tree) -> None:
        self._root = root
        self._depth = 0
        self._references = 0
        self._borrowed = 0

    def fit(self, shape: Shape, tree: Tree, at: int, trail: tuple[Members | Items, ...]) -> Any:
        """Take one value; ``trail`` are the containers around it, outermost first."""
        # What the text spells out was counted by the parser; what references repeat is not.
        self._borrowed += self._references > 0
        if self._borrowed > _MAX_BORROWED or self._depth > _MAX_FIT_DEPTH:
            raise DialectError("references that lead too far", at)
        if not isinstance(tree, Members) or (path := tree.reference) is None:
            self._depth += 1
            value = None if tree is None else shape.fit(self, tree, at, trail)
            self._depth -= 1
            return value
        target = self._resolve(path, at, trail)
        self._depth += 1
        self._references += 1
        value = self.fit(shape, *target)
        self._references -= 1
        self._depth -= 1
        return value

    def _resolve(
        self, path: str, at: int, trail: tuple[Members | Items, ...]
    ) -> tuple[Tree, int, tuple[Members | Items, ...]]:
        if path in ("@", ".."):
            # "@" is the object that holds the reference, ".." the one that holds that.
            steps = 1 if path == "@" else 2
            if len(trail) < steps:
                raise DialectError(f"a reference beyond the root: {path}", at)
            return trail[-steps], trail[-steps].at, trail[:-steps]
        tree, where = self._root, 0
        passed: list[Members | Items] = []
        for step in _path_steps(path, at):
            found: tuple[Tree, int] | None = None
            if isinstance(tree, Items) and isinstance(step, int) and step < len(tree.items):
                found = tree.items[step]
            elif isinstance(tree, Members):
                found = tree.named(str(step))
            if found is None:
                raise DialectError(f"a reference to nothing: {path[:80]}", at)
            assert isinstance(tree, Members | Items)
            passed.append(tree)
            tree, where = found
        return tree, where, tuple(passed)


def _path_steps(path: str, at: int) -> list[str | int]:
    """``$.table.T`` → table, T; a backslash takes the next character as it is."""
    if not path.startswith("$"):
        raise DialectError(f"a reference that is no path: {path[:80]}", at)
    steps: list[str | int] = []
    position = 1
    while position < len(path):
        if path[position] == "[":
            end = path.find("]", position)
            inside = path[position + 1 : end]
            if end < 0 or not inside.isdecimal() or len(inside) > 9:
                raise DialectError(f"a reference that is no path: {path[:80]}", at)
            steps.append(int(inside))
            position = end + 1
            continue
        if path[position] == ".":
            position += 1
        name: list[str] = []
        while position < len(path) and path[position] not in ".[":
            position += path[position] == "\\"
            name.append(path[position : position + 1])
            position += 1
        if not name:
            raise DialectError(f"a reference that is no path: {path[:80]}", at)
        steps.append("".join(name))
    return steps


def _wrong(expected: str, tree: Tree, at: int) -> DialectError:
    given = {Members: "an object", Items: "an array"}.get(type(tree)) or repr(java_text(tree))[:48]
    return DialectError(f"{given} cannot be {expected}", at)


def _fit_text(_: Fitting, tree: Tree, at: int, trail: Any) -> str:
    if isinstance(tree, Members | Items):
        raise _wrong("text", tree, at)
    return java_text(tree)


def _fit_int(_: Fitting, tree: Tree, at: int, trail: Any) -> int | None:
    number: int | None = None
    if isinstance(tree, Real) and tree.is_integer():
        number = int(tree)
    elif isinstance(tree, int) and not isinstance(tree, bool):
        number = tree
    elif isinstance(tree, str):
        if tree in ("", "null"):
            return None
        if len(tree) <= 20 and tree.isascii() and tree.removeprefix("-").isdecimal():
            number = int(tree)
    if number is None or not -(1 << 63) <= number < 1 << 63:
        raise _wrong("a whole number", tree, at)
    return number


def _fit_float(_: Fitting, tree: Tree, at: int, trail: Any) -> float | None:
    if isinstance(tree, str):
        if tree in ("", "null"):
            return None
        try:
            number = float(tree) if len(tree) <= 64 and tree.isascii() else math.nan
        except ValueError:
            number = math.nan
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        number = float(tree)
    else:
        number = math.nan
    if not math.isfinite(number):
        raise _wrong("a number", tree, at)
    return number


_TRUTHS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(("true", "1", "y", "t"), True),
    **dict.fromkeys(("false", "0", "f", "n"), False),
    **dict.fromkeys(("", "null"), None),
}


def _fit_bool(_: Fitting, tree: Tree, at: int, trail: Any) -> bool | None:
    if not isinstance(tree, Members | Items | Real):
        word = java_text(tree).lower()
        if word in _TRUTHS:
            return _TRUTHS[word]
    raise _wrong("true or false", tree, at)


def _fit_bytes(_: Fitting, tree: Tree, at: int, trail: Any) -> bytes:
    if isinstance(tree, str):
        try:
            return base64.b64decode(tree.encode("ascii", "replace"), validate=True)
        except binascii.Error:
            pass
    raise _wrong("base64", tree, at)


def _fit_any(fitting: Fitting, tree: Tree, at: int, trail: tuple[Members | Items, ...]) -> Any:
    shape = shape_of(Any)
    if isinstance(tree, Members):
        inside = (*trail, tree)
        return {key_text(k): fitting.fit(shape, v, at, inside) for k, v, at in tree.pairs}
    if isinstance(tree, Items):
        return [fitting.fit(shape, item, at, (*trail, tree)) for item, at in tree.items]
    return float(tree) if isinstance(tree, Real) else tree


_LEAVES: Final[dict[Any, _Fit]] = {
    str: _fit_text,
    int: _fit_int,
    float: _fit_float,
    bool: _fit_bool,
    bytes: _fit_bytes,
    Any: _fit_any,
    object: _fit_any,
}

_SHAPES: dict[Any, Shape] = {}


def shape_of(kind: Any) -> Shape:
    shape = _SHAPES.get(kind)
    if shape is None:
        building: dict[Any, Shape] = {}
        shape = _build(kind, building)
        for built in building.values():
            # A type that contains itself was open while its parts were judged.
            built.plain = built.plain and all(other.plain for other in building.values())
        if shape.plain:
            shape.decoder = msgspec.json.Decoder(kind, strict=False)
        _SHAPES[kind] = shape
    return shape


def _build(kind: Any, building: dict[Any, Shape]) -> Shape:
    while True:
        if typing.get_origin(kind) is Annotated:
            limited = kind
            kind = typing.get_args(kind)[0]
            if any(isinstance(mark, msgspec.Meta) for mark in typing.get_args(limited)[1:]):
                inner = _build(kind, building)
                return Shape(_limited_fit(inner.fit, limited), inner.plain)
        elif hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        elif typing.get_origin(kind) in (types.UnionType, typing.Union):
            arms = [arm for arm in typing.get_args(kind) if arm is not types.NoneType]
            if len(arms) != 1:
                raise TypeError(f"a body field can be one type or null, not {kind}")
            kind = arms[0]
        else:
            break
    known = building.get(kind)
    if known is None:
        known = building[kind] = Shape(_fit_any)
        known.fit, known.plain = _recipe(kind, building)
    return known


def _limited_fit(inner: _Fit, limited: Any) -> _Fit:
    def fit(fitting: Fitting, tree: Tree, at: int, trail: tuple[Members | Items, ...]) -> Any:
        value = inner(fitting, tree, at, trail)
        if value is not None:
            try:
                msgspec.convert(value, limited)
            except msgspec.ValidationError as error:
                raise DialectError(str(error), at) from None
        return value

    return fit


def _recipe(kind: Any, building: dict[Any, Shape]) -> tuple[_Fit, bool]:
    if kind in _LEAVES:
        return _LEAVES[kind], True
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum_fit(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct_fit(kind, building)
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (dict, Mapping):
        key, value = arguments or (str, Any)
        return _dict_fit(_build(key, building), _build(value, building), key)
    if origin in (list, set, frozenset, tuple):
        item = arguments[0] if arguments else Any
        return _array_fit(origin, _build(item, building)), True
    raise TypeError(f"a body cannot carry {kind}")


def _flag_fit(kind: type[enum.Flag]) -> _Fit:
    """Bits travel as a number, not by name."""

    def fit(fitting: Fitting, tree: Tree, at: int, trail: Any) -> enum.Flag | None:
        bits = _fit_int(fitting, tree, at, trail)
        try:
            return None if bits is None else kind(bits)
        except ValueError:
            raise _wrong(kind.__name__, tree, at) from None

    return fit


def _enum_fit(kind: type[enum.Enum]) -> tuple[_Fit, bool]:
    if issubclass(kind, enum.Flag):
        return _flag_fit(kind), True
    members = list(kind)
    by_name = {name.lower(): member for name, member in kind.__members__.items()}
    plain = all(
        member.value in (member.name, ordinal) and not isinstance(member.value, bool)
        for ordinal, member in enumerate(members)
    )

    def fit(_: Fitting, tree: Tree, at: int, trail: Any) -> enum.Enum | None:
        if isinstance(tree, str):
            return by_name.get(tree.lower())
        if isinstance(tree, int) and not isinstance(tree, bool) and 0 <= tree < len(members):
            return members[tree]
        raise _wrong(kind.__name__, tree, at)

    return fit, plain


def _struct_fit(kind: type[msgspec.Struct], building: dict[Any, Shape]) -> tuple[_Fit, bool]:
    fields = msgspec.structs.fields(kind)
    shapes = {f.encode_name: (f.name, _build(f.type, building), _nullable(f.type)) for f in fields}
    required = [f.name for f in fields if f.required]
    nullable_required = {f.name for f in fields if f.required and _nullable(f.type)}

    def fit(
        fitting: Fitting, tree: Tree, at: int, trail: tuple[Members | Items, ...]
    ) -> msgspec.Struct:
        if not isinstance(tree, Members):
            raise _wrong(kind.__name__, tree, at)
        inside = (*trail, tree)
        values: dict[str, Any] = dict.fromkeys(nullable_required)
        for key, item, item_at in tree.pairs:
            row = shapes.get(key_text(key))
            if row is not None:
                name, shape, nullable = row
                value = fitting.fit(shape, item, item_at, inside)
                if value is not None or nullable:
                    values[name] = value
                else:
                    values.pop(name, None)
        for name in required:
            if name not in values:
                raise DialectError(f"{kind.__name__} lacks {name}", at)
        try:
            return kind(**values)
        except (TypeError, ValueError) as error:
            raise DialectError(f"{kind.__name__}: {error}", at) from None

    return fit, True


def _nullable(kind: Any) -> bool:
    if kind is Any:
        return True
    if typing.get_origin(kind) is Annotated:
        return _nullable(typing.get_args(kind)[0])
    return types.NoneType in typing.get_args(kind) and typing.get_origin(kind) in (
        types.UnionType,
        typing.Union,
    )


def _dict_fit(key_shape: Shape, value_shape: Shape, key_kind: Any) -> tuple[_Fit, bool]:
    keyed_by_object = isinstance(key_kind, type) and issubclass(key_kind, msgspec.Struct)

    def fit(
        fitting: Fitting, tree: Tree, at: int, trail: tuple[Members | Items, ...]
    ) -> dict[Any, Any]:
        if not isinstance(tree, Members):
            raise _wrong("a map", tree, at)
        inside = (*trail, tree)
        table: dict[Any, Any] = {}
        for key, item, item_at in tree.pairs:
            if keyed_by_object and isinstance(key, str):
                try:
                    key = parse(key)
                except DialectError as error:
                    raise DialectError(f"a key that is no object: {error.reason}", at) from None
            name = fitting.fit(key_shape, key, item_at, inside)
            if name is None:
                raise _wrong("a key", key, item_at)
            value = fitting.fit(value_shape, item, item_at, inside)
            if value is None:
                table.pop(name, None)  # fastjson writes no null values; neither do we keep them
            else:
                table[name] = value
        return table

    return fit, not keyed_by_object


def _array_fit(make: Callable[[list[Any]], Any], item_shape: Shape) -> _Fit:
    def fit(fitting: Fitting, tree: Tree, at: int, trail: tuple[Members | Items, ...]) -> Any:
        if not isinstance(tree, Items):
            raise _wrong("an array", tree, at)
        inside = (*trail, tree)
        values: list[Any] = []
        for item, item_at in tree.items:
            value = fitting.fit(item_shape, item, item_at, inside)
            if value is None:
                raise _wrong("an item", item, item_at)
            values.append(value)
        return make(values)

    return fit
