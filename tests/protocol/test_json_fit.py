"""Trees into typed values, type by type."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any, NewType

import msgspec
import pytest

from rocketpipe.model.body import Body
from rocketpipe.protocol.json_dialect import DialectError, parse
from rocketpipe.protocol.json_fit import Fitting, shape_of

Offset = NewType("Offset", int)
Small = Annotated[int, msgspec.Meta(ge=0, le=9)]


class Colour(enum.Enum):
    RED = "RED"
    GREEN = "GREEN"


class Odd(enum.IntEnum):
    TEN = 10


class Bits(enum.Flag, boundary=enum.STRICT):
    ONE = 1
    TWO = 2


class Node(Body, frozen=True, kw_only=True):
    name: str
    children: tuple[Node, ...] = ()


class Picky(Body, frozen=True, kw_only=True):
    size: int

    def __post_init__(self) -> None:
        if self.size == 13:
            raise ValueError("not thirteen")


def fit(text: str, kind: Any) -> Any:
    tree = parse(text)
    return Fitting(tree).fit(shape_of(kind), tree, 0, ())


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", int, 5),
        ("'5'", Offset, 5),
        ("5.0", int, 5),
        ("null", int, None),
        ("'null'", int, None),
        ("9", Small, 9),
        ("1.5", float, 1.5),
        ("'1.5'", float, 1.5),
        ("2", float, 2.0),
        ("''", float, None),
        ("1", bool, True),
        ("'F'", bool, False),
        ("''", bool, None),
        ("true", str, "true"),
        ("'AAE='", bytes, b"\x00\x01"),
        ("'red'", Colour, Colour.RED),
        ("1", Colour, Colour.GREEN),
        ("0", Odd, Odd.TEN),
        ("3", Bits, Bits.ONE | Bits.TWO),
        ("null", Bits, None),
        ("[1,'2']", list[int], [1, 2]),
        ("[1,1]", set[int], {1}),
        ("[1,1]", frozenset[int], frozenset({1})),
        ("['a']", tuple[str, ...], ("a",)),
        ("{1:'a',\"2\":'b'}", dict[int, str], {1: "a", 2: "b"}),
        ("{RED:1}", dict[Colour, int], {Colour.RED: 1}),
        ("{a:null,b:1}", Mapping[str, int], {"b": 1}),
        ("{a:1,a:null}", dict[str, int], {}),
        ("{a:[1.5,{b:null}]}", Any, {"a": [1.5, {"b": None}]}),
        ("[{},[]]", list, [{}, []]),
        ("{a:1}", dict, {"a": 1}),
    ],
)
def test_a_value_is_taken_as_its_type(text: str, kind: Any, value: Any) -> None:
    taken = fit(text, kind)
    assert taken == value
    assert type(taken) is type(value)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("10", Small, "<= 9"),
        ("true", int, "whole number"),
        ("'1e2'", int, "whole number"),
        ("'１'", int, "whole number"),
        ("1e999", float, "a number"),
        ("'inf'", float, "a number"),
        ("true", float, "a number"),
        ("1.0", bool, "true or false"),
        ("[]", bool, "true or false"),
        ("5", bytes, "base64"),
        ("'é'", bytes, "base64"),
        ("2", Colour, "Colour"),
        ("-1", Colour, "Colour"),
        ("true", Colour, "Colour"),
        ("4", Bits, "Bits"),
        ("'much'", float, "a number"),
        ('{a:[],b:{"$ref":"$.a[0]"}}', dict[str, list[int]], "reference to nothing"),
        ('{a:1,b:{"$ref":"$..a"}}', dict[str, int], "no path"),
        ('{a:1,b:{"$ref":"$.a.x"}}', dict[str, int], "reference to nothing"),
        ("{}", list[int], "an object cannot be an array"),
        ("5", dict[str, int], "'5' cannot be a map"),
        ("{x:1}", dict[int, int], "whole number"),
        ("{'':1}", dict[int, int], "a key"),
        ("{size:13}", Picky, "not thirteen"),
        ("{children:[]}", Node, "lacks name"),
    ],
)
def test_a_value_of_another_type_is_refused(text: str, kind: Any, reason: str) -> None:
    with pytest.raises(DialectError, match=reason):
        fit(text, kind)


def test_a_type_may_contain_itself() -> None:
    leaf = Node(name="leaf")
    assert fit("{name:root,children:[{name:leaf}]}".replace("root", "'root'").replace(
        ":leaf", ":'leaf'"), Node) == Node(name="root", children=(leaf,))  # fmt: skip
    assert shape_of(Node).decoder is not None


def test_msgspec_reads_what_it_reads_as_we_would() -> None:
    assert shape_of(dict[int, Colour]).decoder is not None
    # an ordinal would be taken for a value, or an object key for text
    assert shape_of(dict[int, Odd]).decoder is None
    assert shape_of(dict[Node, int]).decoder is None
    assert shape_of(list[dict[str, dict[Node, int]]]).decoder is None


@pytest.mark.parametrize("kind", [complex, int | str, list[complex]])
def test_a_type_that_no_body_has_is_refused_when_it_is_declared(kind: Any) -> None:
    with pytest.raises(TypeError):
        shape_of(kind)
