"""SQL92 expressions over message properties: compiled once, asked for every message.

``compile_sql`` turns the tree into nested functions of the properties. Results are three-valued:
true, false, or null (None) where a property is missing. Values keep their Java types, and when two
meet, one is read as the other's:

    left      right       compared as
    text      text        texts under = and <>, doubles under < <= > >=
    text      number      the number's type; text that is no such number fails
    number    number      doubles if one is a double, else whole numbers
    text      boolean     booleans: "true" in any case is true, all else false
    boolean   text        fails, as RocketMQ casts the wrong side
    boolean   number      never equal, nor the other way round

A property is a text. An evaluation that fails is an exception in RocketMQ, and its broker takes the
message as not matched: so does ``CompiledFilter.matches``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias

from rocketpipe.errors import RocketPipeError
from rocketpipe.filter.java_text import double_rank, read_boolean, read_double, read_int, read_long
from rocketpipe.filter.sql_parser import parse_priced
from rocketpipe.filter.sql_tree import (
    NULL,
    NUMBERS,
    AllOf,
    AnyOf,
    Between,
    Equality,
    Kind,
    Literal,
    Membership,
    Negation,
    Node,
    Not,
    Order,
    Property,
    Search,
    Truth,
)

Properties: TypeAlias = Mapping[str, str]
_Function: TypeAlias = Callable[[Properties], Any]
_Convert: TypeAlias = Callable[[Any], Any]
_Holds: TypeAlias = Callable[[Any, Any], bool]


#: A longer one is no number that anybody counts with, and takes its time to be read.
_SHORT_TEXT: Final = 64


class EvaluationFailed(RocketPipeError):
    """These properties cannot be put through the expression; RocketMQ throws here."""


@dataclass(frozen=True, slots=True)
class CompiledFilter:
    """An expression ready to be asked. ``expression`` is its text, as given."""

    expression: str
    _root: _Function = field(repr=False, compare=False)
    #: How much work it is to ask it, next to others: operators, of which searches count more.
    cost: int = field(default=1, repr=False, compare=False)

    def matches(self, properties: Properties) -> bool:
        """Whether a message with these properties is to be delivered. Never raises."""
        try:
            return self._root(properties) is True
        except ValueError:
            return False

    def evaluate(self, properties: Properties) -> bool | None:
        """The three-valued result.

        Raises:
            EvaluationFailed: If a property is not of the type it is compared with.
        """
        try:
            result: bool | None = self._root(properties)
        except ValueError as reason:
            raise EvaluationFailed(str(reason)) from reason
        return result


def compile_sql(expression: str, *, strict: bool = False) -> CompiledFilter:
    """Compile a SQL92 expression; ``strict`` refuses text after its end, which RocketMQ ignores.

    Raises:
        FilterError: If RocketMQ would not compile it, or it is too long or too deep.
    """
    tree, cost = parse_priced(expression, strict=strict)
    return CompiledFilter(expression, _function(tree), cost)


def _function(node: Node) -> _Function:
    """Compile a node. This takes one frame a level, and so does running what it gives."""
    match node:
        case Property(name):
            return lambda properties: properties.get(name)
        case Literal():
            return _constant(node.value)
        case Negation(operand):
            number = _number(node)
            return _constant(number.value) if number else _null_after(_function(operand))
        case Truth(operand):
            return _false_if_present(operand.name)
        case Not(operand):
            return _opposite(_function(operand))
        case AllOf(terms):
            return _decided_by(False, tuple(map(_function, terms)))
        case AnyOf(terms):
            return _decided_by(True, tuple(map(_function, terms)))
        case Equality(left, right):
            return _equality(node, _function(left), _function(right))
        case Order(_, left, right):
            return _order(node, _function(left), _function(right))
        case Between(operand, low, high):
            return _between(node, _function(operand), _function(low), _function(high))
        case Membership(operand):
            return _membership(node, operand.name)
        case Search(_, operand):
            return _search(node, _function(operand))


def _constant(value: Any) -> _Function:
    return lambda properties: value


def _null_after(operand: _Function) -> _Function:
    def test(properties: Properties) -> None:
        operand(properties)  # for its failures alone

    return test


def _false_if_present(name: str) -> _Function:
    return lambda properties: False if name in properties else None


def _opposite(operand: _Function) -> _Function:
    def test(properties: Properties) -> bool | None:
        result: bool | None = operand(properties)
        return None if result is None else not result

    return test


def _decided_by(decisive: bool, terms: tuple[_Function, ...]) -> _Function:
    """AND is decided by the first false term, OR by the first true one; no later one is asked."""

    def test(properties: Properties) -> bool | None:
        result: bool | None = not decisive
        for term in terms:
            answer: bool | None = term(properties)
            if answer is decisive:
                return decisive
            if answer is None:
                result = None
        return result

    return test


def _equality(node: Equality, left: _Function, right: _Function) -> _Function:
    if node.right == NULL:
        return lambda properties: left(properties) is None
    to_left, to_right = _conversions(node.left, node.right, as_numbers=False)
    if isinstance(node.left, Property) and isinstance(node.right, Literal):
        return _property_against(node.left.name, to_left, operator.eq, to_right(node.right.value))

    def test(properties: Properties) -> bool | None:
        first = left(properties)
        second = right(properties)
        if first is None:
            return True if second is None else None
        if second is None:
            return False
        return bool(to_left(first) == to_right(second))

    return test


def _order(node: Order, left: _Function, right: _Function) -> _Function:
    holds = _HOLDS[node.sign]
    to_left, to_right = _conversions(node.left, node.right, as_numbers=True)
    number = _number(node.right)
    if isinstance(node.left, Property) and number:
        return _property_against(node.left.name, to_left, holds, to_right(number.value))

    def test(properties: Properties) -> bool | None:
        first = left(properties)
        if first is None:
            return None
        second = right(properties)
        if second is None:
            return None
        return holds(to_left(first), to_right(second))

    return test


def _property_against(name: str, read: _Convert, holds: _Holds, constant: Any) -> _Function:
    """What most comparisons are, with the constant converted beforehand."""

    def test(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else holds(read(text), constant)

    return test


def _between(node: Between, operand: _Function, low: _Function, high: _Function) -> _Function:
    if _kind(node.operand) is Kind.NULL:
        # Asked once, not for each end: a nest of these would double the work at every level.
        return operand
    above, below = ("<", ">") if node.negated else (">=", "<=")
    return _decided_by(
        node.negated,
        (
            _order(Order(above, node.operand, node.low), operand, low),
            _order(Order(below, node.operand, node.high), operand, high),
        ),
    )


def _membership(node: Membership, name: str) -> _Function:
    texts, negated = node.texts, node.negated

    def test(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (text in texts) is not negated

    return test


def _search(node: Search, operand: _Function) -> _Function:
    sought, negated = node.sought, node.negated
    found = _SEARCHES[node.how]
    if not sought:
        return _constant(False)

    def test(properties: Properties) -> bool:
        text = operand(properties)
        return isinstance(text, str) and found(text, sought) is not negated

    return test


def _kind(node: Node) -> Kind:
    """The type of a node's values, as far as they are not null."""
    if isinstance(node, Property):
        return Kind.TEXT
    if isinstance(node, Literal):
        return node.kind
    if isinstance(node, Negation):
        number = _number(node)
        return number.kind if number else Kind.NULL
    return Kind.BOOLEAN


def _number(node: Node) -> Literal | None:
    """The number that a node always is."""
    minus = False
    while isinstance(node, Negation):
        minus = not minus
        node = node.operand
    if not isinstance(node, Literal) or node.kind not in NUMBERS:
        return None
    assert isinstance(node.value, int | float)
    return Literal(node.kind, -node.value) if minus else node


def _conversions(left: Node, right: Node, *, as_numbers: bool) -> tuple[_Convert, _Convert]:
    """What makes two values comparable, once neither is null; see the table above."""
    match _kind(left), _kind(right):
        case (Kind.NULL, _) | (_, Kind.NULL):
            return _same, _same
        case Kind.TEXT, Kind.TEXT:
            rank = _READERS[Kind.DOUBLE][0]
            return (rank, rank) if as_numbers else (_same, _same)
        case Kind.TEXT, Kind.BOOLEAN:
            return read_boolean, _same
        case Kind.BOOLEAN, Kind.TEXT:
            return _miscast, _same
        case Kind.BOOLEAN, Kind.BOOLEAN:
            return _same, _same
        case (Kind.BOOLEAN, _) | (_, Kind.BOOLEAN):
            return (lambda _: 0), (lambda _: 1)
        case Kind.TEXT, number:
            return _READERS[number]
        case number, Kind.TEXT:
            read, keep = _READERS[number]
            return keep, read
        case kinds:
            return (_number_rank, _number_rank) if Kind.DOUBLE in kinds else (_same, _same)


def _same(value: Any) -> Any:
    return value


def _miscast(value: Any) -> NoReturn:
    raise ValueError("a condition on the left of = cannot be compared with text on its right")


def _text_rank(text: str) -> int:
    return double_rank(read_double(text))


def _number_rank(number: float) -> int:
    return double_rank(float(number))


def _once(read: _Convert) -> _Convert:
    """Read a long text once, however many comparisons of an expression it is in."""
    remembered = lru_cache(maxsize=16)(read)
    return lambda text: read(text) if len(text) <= _SHORT_TEXT else remembered(text)


_READERS: Final[dict[Kind, tuple[_Convert, _Convert]]] = {
    Kind.INT: (_once(read_int), _same),
    Kind.LONG: (_once(read_long), _same),
    Kind.DOUBLE: (_once(_text_rank), _number_rank),
}
_HOLDS: Final[dict[str, _Holds]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
