"""What a SQL92 expression says, and what RocketMQ refuses to compile.

    Property  Literal  Negation                     values
    Truth  Not  AllOf  AnyOf                        conditions, and conditions of conditions
    Equality  Order  Between  Membership  Search    conditions about values

``a <> b`` is ``Not(Equality(a, b))``, ``a IS NULL`` is ``Equality(a, NULL)``, and a property that
stands where a condition should is ``Truth(a)``. The functions here build nodes and check, as
RocketMQ does while it compiles, what may stand where; ``column`` is where a refusal points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from rocketpipe.errors import FilterError
from rocketpipe.filter.java_text import INT_MAX, LONG_MAX, double_rank


class Kind(Enum):
    """The Java type of a value. How a property is read depends on whom it meets."""

    TEXT = "text"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    NULL = "null"


NUMBERS: Final = frozenset([Kind.INT, Kind.LONG, Kind.DOUBLE])


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a message property: text, or null when the message has none of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the expression."""

    kind: Kind
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Negation:
    """Minus a number; minus anything else is null."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Truth:
    """A property as a condition: null without it, otherwise false, as its value is a text."""

    operand: Property


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; the opposite of null is null."""

    operand: Node


@dataclass(frozen=True, slots=True)
class AllOf:
    """Conditions joined by AND, in order: the first false one decides, then null."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Conditions joined by OR, in order: the first true one decides, then null."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Equality:
    """Two equal values. Two nulls are equal; one is null on the left, and false on the right."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Order:
    """Numbers in the order that ``sign`` says (<, <=, > or >=); null if one of them is null."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    """A number between two others, both included; or outside them."""

    operand: Node
    low: Node
    high: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class Membership:
    """A property that is one of some texts, or none of them; null without the property."""

    operand: Property
    texts: frozenset[str]
    negated: bool


@dataclass(frozen=True, slots=True)
class Search:
    """A text that contains, starts with or ends with another, or does not.

    False, negated or not, when there is no text to search or nothing to search for.
    """

    how: str
    operand: Node
    sought: str
    negated: bool


Value: TypeAlias = Property | Literal | Negation
Condition: TypeAlias = (
    Truth | Not | AllOf | AnyOf | Equality | Order | Between | Membership | Search
)
Node: TypeAlias = Value | Condition

NULL: Final = Literal(Kind.NULL, None)
TRUE: Final = Literal(Kind.BOOLEAN, True)
FALSE: Final = Literal(Kind.BOOLEAN, False)


def whole_literal(text: str, column: int) -> Literal:
    """An int if it fits, else a long. Digits only, and perhaps an L that means nothing.

    Raises:
        FilterError: If it takes more than 64 bits.
    """
    digits = text.rstrip("lL")
    number = int(digits) if len(digits) <= len(str(LONG_MAX)) else LONG_MAX + 1
    if number > LONG_MAX:
        raise FilterError(f"a number above {LONG_MAX}", column)
    return Literal(Kind.INT if number <= INT_MAX else Kind.LONG, number)


def decimal_literal(text: str, column: int) -> Literal:
    """A double.

    Raises:
        FilterError: If it is too large for one, or zero: RocketMQ's lower bound is the smallest
            positive double.
    """
    number = float(text)
    if number == math.inf:
        raise FilterError("a decimal number above the largest double", column)
    if number == 0:
        raise FilterError("a decimal number that is zero; a whole 0 may be compared with", column)
    return Literal(Kind.DOUBLE, number)


def text_literal(token: str) -> str:
    """The text between the quotes."""
    return token[1:-1].replace("''", "'")


def is_condition(node: Node) -> bool:
    """Whether a node can only be true, false or null. TRUE, FALSE and NULL are such nodes too."""
    if isinstance(node, Literal):
        return node.kind in (Kind.BOOLEAN, Kind.NULL)
    return not isinstance(node, Property | Negation)


def condition(node: Node, column: int) -> Node:
    """The node where a condition is due.

    Raises:
        FilterError: If it is a text, a number or a negation.
    """
    if isinstance(node, Property):
        return Truth(node)
    if not is_condition(node):
        raise FilterError("a value where a condition is due", column)
    return node


def equality(left: Node, right: Node, column: int) -> Equality:
    """``left = right``.

    Raises:
        FilterError: If one is NULL, or TRUE or FALSE are on the left of another literal.
    """
    for side in (left, right):
        if isinstance(side, Literal) and side.kind is Kind.NULL:
            raise FilterError("NULL is compared with IS NULL or IS NOT NULL only", column)
    if (
        isinstance(left, Literal)
        and isinstance(right, Literal)
        and left.kind is Kind.BOOLEAN
        and right.kind is not Kind.BOOLEAN
    ):
        raise FilterError("TRUE or FALSE compared with a number or text", column)
    return Equality(left, right)


def order(sign: str, left: Node, right: Node, column: int) -> Order:
    """``left < right`` and its like.

    Raises:
        FilterError: If one is a text, TRUE, FALSE, NULL or a condition.
    """
    _check_orderable(left, column)
    _check_orderable(right, column)
    return Order(sign, left, right)


def between(operand: Node, low: Node, high: Node, column: int, *, negated: bool) -> Between:
    """``operand BETWEEN low AND high``.

    Raises:
        FilterError: If one cannot be ordered, or two literals leave nothing between them.
    """
    for side in (operand, low, high):
        _check_orderable(side, column)
    # RocketMQ checks neither NOT BETWEEN nor negative numbers, which are no literals to it.
    if (
        not negated
        and isinstance(low, Literal)
        and isinstance(high, Literal)
        and _ranked(low, high) > _ranked(high, low)
    ):
        raise FilterError("BETWEEN with its low end above its high end", column)
    return Between(operand, low, high, negated)


def membership(operand: Node, texts: frozenset[str], column: int, *, negated: bool) -> Membership:
    """``operand IN (texts)``.

    Raises:
        FilterError: If the operand is not a property.
    """
    if not isinstance(operand, Property):
        raise FilterError("IN after something that is not a property", column)
    return Membership(operand, texts, negated)


def _ranked(number: Literal, other: Literal) -> int:
    """A number as compared with another: as it is, or as a double's rank if one is a double."""
    value = number.value
    assert isinstance(value, int | float)
    if Kind.DOUBLE in (number.kind, other.kind):
        return double_rank(float(value))
    assert isinstance(value, int)
    return value


def _check_orderable(node: Node, column: int) -> None:
    if is_condition(node):
        raise FilterError("TRUE, FALSE, NULL and conditions have no order", column)
    if isinstance(node, Literal) and node.kind is Kind.TEXT:
        raise FilterError("texts have no order; only numbers and properties do", column)
