"""One public name as Markdown: how it is called, what it has, and what it says of itself.

All of it is read from the code: signatures with their types and defaults, docstrings with what they
raise, attributes with the ``#:`` comment above them.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from rocketpipe.client import members
from rocketpipe.clock import Clock

WIDTH: Final = 88
NEWLINE: Final = "\n"
_NOTHING: Final = object()
#: What a session asks of its members, what everybody asks of a clock, and a kit of its parts.
_NOT_FOR_USERS: Final = {
    *(
        name
        for told in vars(members).values()
        if getattr(told, "__module__", None) == members.__name__
        for name in vars(told)
    ),
    *vars(Clock),
    *("stir", "refused", "loses_answer"),
}
_STARS: Final = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
_SECTION: Final = re.compile(r"^(Raises|Args):\n((?:[ ]{4}.*\n|\n)+)", re.MULTILINE)
#: What has no docstring, being a plain value.
CONSTANTS: Final = {
    "DEAD_LETTER": "Returned by a handler, it gives the message up at once: to the dead letters.",
    "__version__": "The version of this package, as text.",
}


class Silent(Exception):
    """A public name that says nothing about itself."""


@dataclass(frozen=True)
class Name:
    """A name and where it is imported from; ``made`` if users get it and do not make it."""

    module: str
    name: str
    made: bool = False

    @cached_property
    def value(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def title(self) -> str:
        """Its heading: letter case is lost in a link, and ``kit`` would be ``Kit``."""
        name = self.name.strip("_")
        return f"{name} function" if inspect.isfunction(self.value) else name

    @property
    def anchor(self) -> str:
        return self.title.lower().replace(" ", "-")


# An entry


def entry(name: Name, depth: str) -> Iterator[str]:
    """A name: where it is, what it says, how it is called, what it has."""
    value = name.value
    yield f"\n{depth} {name.title}\n\n"
    if name.name in CONSTANTS:
        yield f"{CONSTANTS[name.name]}\n"
        return
    yield from said(value, name.name)
    origin = "" if name.made else f"from {name.module} import {name.name}\n\n"
    if not inspect.isclass(value):
        yield from signature(name.name, value, origin=origin)
        return
    if issubclass(value, enum.Enum):
        notes = _notes(value)
        yield from table(("", ""), ((f"`{e.name}`", marked(notes.get(e.name, ""))) for e in value))
        return
    if not name.made and _can_be_made(value):
        yield from signature(name.name, value, origin=origin)
        if "__init__" in vars(value) and value.__init__.__doc__:
            yield "\n"
            yield from said(value.__init__, name.name)
    yield from _attributes(value, name.name)
    yield from methods(value, name.name, depth)


def _can_be_made(value: type[Any]) -> bool:
    if typing.is_typeddict(value) or getattr(value, "_is_protocol", False):
        return False
    return not issubclass(value, Exception) or "__init__" in vars(value)


def _attributes(value: type[Any], path: str) -> Iterator[str]:
    """Fields and properties, with their types and defaults."""
    rows: list[tuple[str, str, str, str]] = []
    notes = _notes(value)
    for name, kind, default in _fields(value):
        given = "" if default is _NOTHING else f"`{_default(default)}`"
        rows.append((f"`{name}`", _type(kind), cell(given), cell(marked(notes.get(name, "")))))
    for name, member in _members(value):
        if isinstance(member, property):
            kind = inspect.signature(member.fget).return_annotation if member.fget else ""
            text = first_line(member, f"{path}.{name}")
            rows.append((f"`{name}`", _type(kind), "", cell(text)))
    if rows:
        head = ("attribute", "type", "default", "")
        if not any(row[2] for row in rows):
            head, rows = ("attribute", "type", ""), [(a, t, n) for a, t, _, n in rows]  # type: ignore[assignment,misc]
        yield from table(head, rows)


def _fields(value: type[Any]) -> Iterator[tuple[str, Any, Any]]:
    if typing.is_typeddict(value):
        yield from ((name, kind, _NOTHING) for name, kind in _hints(value).items())
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            default: Any = each.default
            if default is dataclasses.MISSING and each.default_factory is not dataclasses.MISSING:
                default = each.default_factory()
            if not each.name.startswith("_"):
                yield each.name, each.type, _NOTHING if default is dataclasses.MISSING else default
    elif issubclass(value, msgspec.Struct):
        required = len(value.__struct_fields__) - len(value.__struct_defaults__)
        defaults = (_NOTHING,) * required + value.__struct_defaults__
        hints = _hints(value)
        for name, default in zip(value.__struct_fields__, defaults, strict=True):
            yield name, hints[name], default
    else:
        for name, kind in _hints(value).items():
            if not name.startswith("_") and hasattr(value, name):
                yield name, re.sub(r"ClassVar\[(.+)\]", r"\1", str(kind)), getattr(value, name)


def _hints(value: type[Any]) -> dict[str, Any]:
    """The annotations of a class and of those it comes from, as far as they are ours."""
    ours = (base for base in reversed(value.__mro__) if base.__module__.startswith("rocketpipe"))
    return {name: kind for base in ours for name, kind in inspect.get_annotations(base).items()}


def methods(value: type[Any], path: str, depth: str = "##") -> Iterator[str]:
    for name, member in _members(value):
        if inspect.isfunction(member):
            yield f"\n{depth}# {path}.{name}\n\n"
            yield from signature(name, member, bound=True)
            yield "\n"
            yield from said(member, f"{path}.{name}")


def _members(value: type[Any]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, in the order of the source, inherited ones last."""
    seen: set[str] = set()
    for base in value.__mro__:
        if not base.__module__.startswith("rocketpipe"):
            continue
        for name, member in vars(base).items():
            inside = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if name.startswith("_") or name in _NOT_FOR_USERS or name in seen:
                continue
            if inspect.isfunction(inside) or isinstance(inside, property):
                seen.add(name)
                yield name, inside


# What the code says


def said(value: Any, path: str) -> Iterator[str]:
    """A docstring as Markdown: prose first, then what is given and what is raised."""
    text = textwrap.dedent(_doc(value, path)) + "\n"
    sections = {found[1]: found[2] for found in _SECTION.finditer(text)}
    yield marked(_SECTION.sub("", text).strip()) + "\n"
    for title, heading in (("Args", "Arguments"), ("Raises", "Raises")):
        if title in sections:
            yield f"\n{heading}:\n\n"
            lines = textwrap.dedent(sections[title]).strip()
            for line in re.sub(r"\n\s+", " ", lines).splitlines():
                names, _, told = line.partition(": ")
                yield f"- {coded(names.split(', '))}: {marked(told)}\n"


def _doc(value: Any, path: str) -> str:
    text = inspect.getdoc(value) or ""
    if not text or text.startswith(f"{getattr(value, '__name__', '?')}("):  # made up by dataclass
        raise Silent(f"{path} says nothing about itself: give it a docstring")
    return text


def first_line(value: Any, path: str) -> str:
    return marked(_doc(value, path).partition("\n")[0])


def _notes(value: type[Any]) -> dict[str, str]:
    """What stands above each attribute as ``#:``, or below it as a text."""
    notes: dict[str, str] = {}
    for base in reversed(value.__mro__):
        if base.__module__.startswith("rocketpipe"):
            notes |= _notes_in(textwrap.dedent(inspect.getsource(base)))
    return notes


def _notes_in(source: str) -> dict[str, str]:
    lines, notes = source.splitlines(), {}
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign):
            target = node.targets[0]  # type: ignore[assignment]
        if not isinstance(target, ast.Name):
            continue
        above: list[str] = []
        at = node.lineno - 2
        while lines[at].strip().startswith("#:"):
            above.insert(0, lines[at].strip().removeprefix("#:").strip())
            at -= 1
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            above.append(" ".join(str(after.value.value).split()))
        notes[target.id] = " ".join(above)
    return notes


# How it is called


def signature(
    name: str, value: Callable[..., Any], *, bound: bool = False, origin: str = ""
) -> Iterator[str]:
    """How it is called, a line for each argument where one line is not enough."""
    inside = inspect.unwrap(value)
    how = "await " if inspect.iscoroutinefunction(inside) else ""
    gives = "" if inspect.isclass(value) else inspect.signature(value).return_annotation
    answer = "" if gives in ("", inspect.Signature.empty) else f" -> {_annotation(gives)}"
    if value is not inside:  # made a context manager by a decorator
        how = "async with " if inspect.isasyncgenfunction(inside) else "with "
        answer = re.sub(r" -> \w+\[(.+)\]", r" -> \1", answer)
    parts = _arguments(value, bound=bound)
    flat = f"{how}{name}({', '.join(parts)}){answer}"
    if len(flat) > WIDTH:
        flat = f"{how}{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){answer}"
    yield f"{'' if bound else NEWLINE}```python no-run\n{origin}{flat}\n```\n"


def _arguments(value: Callable[..., Any], *, bound: bool) -> list[str]:
    """The arguments, ``bound`` to an object or not, as they would be written."""
    parts: list[str] = []
    named_only = False
    for each in list(inspect.signature(value).parameters.values())[1 if bound else 0 :]:
        if each.kind is each.KEYWORD_ONLY and not named_only:
            parts.append("*")
        named_only = named_only or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        text = _STARS.get(str(each.kind.name), "") + each.name
        if each.annotation is not each.empty:
            text += f": {_annotation(each.annotation)}"
        if each.default is not each.empty:
            text += f" = {_default(each.default)}"
        parts.append(text)
    return parts


def _annotation(given: object) -> str:
    if isinstance(given, typing.ForwardRef):
        given = given.__forward_arg__
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    ours = r"\b(?:typing|collections\.abc|rocketpipe(?:\.\w+)*)\."
    return re.sub(ours, "", text.replace("'", ""))


def _type(given: object) -> str:
    return cell(f"`{_annotation(given)}`")


def _default(value: object) -> str:
    """A default as one would write it: by its name, where it is no plain value."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str | bytes | tuple | dict):
        return repr(value).replace("'", '"')
    if isinstance(value, typing.Mapping) and not value:
        return "{}"
    home = vars(importlib.import_module(type(value).__module__))
    named = (name for name, known in home.items() if known is value and name[0] != "_")
    return next(named, "...")


def bare(value: object) -> str:
    return str(value.value if isinstance(value, enum.Enum) else value).lower()


# Markdown


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}\n"
    yield from (f"| {' | '.join(row)} |\n" for row in rows)


def coded(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def marked(text: str) -> str:
    return text.replace("; see the top of this file", "").replace("``", "`")


def cell(text: str) -> str:
    """Text for a table, where a bar would end the cell, in code too."""
    return text.replace("|", "\\|")
