"""SQL92 over properties: Apache's own answers, then random trees against plain rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpipe.errors import FilterError
from rocketpipe.filter.sql_eval import EvaluationFailed, compile_sql
from rocketpipe.filter.sql_lexer import KEYWORDS
from rocketpipe.filter.sql_parser import MAX_DEPTH

GOLDEN = json.loads((Path(__file__).parent / "golden" / "sql92.json").read_text("utf-8"))
RESULTS = {"true": True, "false": False, "null": None}


def outcome(expression: str, properties: dict[str, str]) -> str:
    try:
        compiled = compile_sql(expression)
    except FilterError:
        return "compile-error"
    try:
        result = compiled.evaluate(properties)
    except EvaluationFailed:
        assert compiled.matches(properties) is False
        return "exception"
    assert compiled.matches(properties) is (result is True)
    (name,) = (name for name, value in RESULTS.items() if value is result)
    return name


def test_every_answer_is_apaches() -> None:
    assert len(GOLDEN["rows"]) > 6000
    differing = [
        (expression, properties, expected, ours)
        for expression, properties, expected in GOLDEN["rows"]
        if (ours := outcome(expression, properties)) != expected
    ]
    assert not differing


def test_the_golden_answers_are_of_every_sort() -> None:
    answers = [expected for _, _, expected in GOLDEN["rows"]]
    for answer in (*RESULTS, "exception", "compile-error"):
        assert answers.count(answer) > 800, answer


@pytest.mark.parametrize(
    ("expression", "properties", "expected"),
    [
        ("a > 10", {"a": "11"}, "true"),
        ("a > 10", {"a": "10.5"}, "exception"),
        ("a > 10.0", {"a": "10.5"}, "true"),
        ("a > 10", {}, "null"),
        ("a = 10", {"a": "010"}, "true"),
        ("a = 10", {"a": "10.0"}, "exception"),
        ("a <> 'x'", {}, "null"),
        ("a = b", {}, "true"),
        ("a = b", {"a": "1"}, "false"),
        ("a = b", {"b": "1"}, "null"),
        ("a > b", {"a": "10", "b": "9"}, "true"),
        ("a = TRUE", {"a": "TRUE"}, "true"),
        ("TRUE = a", {"a": "true"}, "exception"),
        ("a", {"a": "true"}, "false"),
        ("NOT a", {"a": "true"}, "true"),
        ("NOT a", {}, "null"),
        ("a NOT IN ('x')", {}, "null"),
        ("a IN (1,2)", {}, "compile-error"),
        ("a BETWEEN 1 AND 5", {"a": "5"}, "true"),
        ("a BETWEEN 5 AND 1", {}, "compile-error"),
        ("a BETWEEN 1 AND 5", {"a": "5.0"}, "exception"),
        ("a IS NULL AND b IS NOT NULL", {"b": "1"}, "true"),
        ("a NOT CONTAINS 'z'", {}, "false"),
        ("a CONTAINS ''", {"a": "abc"}, "false"),
        ("a STARTSWITH 'ab'", {"a": "abc"}, "true"),
        ("a != 1", {}, "compile-error"),
        ("a LIKE 'x%'", {"a": "x"}, "false"),
        ("a > 'x'", {}, "compile-error"),
        ("a = NULL", {}, "compile-error"),
        ("a = 1 OR b = 2", {"b": "2"}, "true"),
        ("a = 1 AND b = 2", {"a": "2"}, "false"),
        ("a = 1 garbage", {"a": "1"}, "true"),
        ("a > 0.0", {}, "compile-error"),
        ("a > 3000000000", {"a": "3000000001"}, "true"),
        ("A = 1", {"a": "1"}, "null"),
        ("a.b = 1", {}, "compile-error"),
        ("_x$1 = 'q'", {"_x$1": "q"}, "true"),
        ('a = "x"', {}, "compile-error"),
        ("", {}, "compile-error"),
    ],
)
def test_what_users_stumble_over(
    expression: str, properties: dict[str, str], expected: str
) -> None:
    assert outcome(expression, properties) == expected


def test_the_text_is_kept_and_shown() -> None:
    compiled = compile_sql("a = 1 and more")
    assert compiled.expression == "a = 1 and more"
    assert repr(compiled) == "CompiledFilter(expression='a = 1 and more')"
    assert compiled == compile_sql("a = 1 and more")


def test_strict_refuses_text_after_the_end() -> None:
    assert compile_sql("a = 1", strict=True).matches({"a": "1"})
    with pytest.raises(FilterError) as caught:
        compile_sql("a = 1 more", strict=True)
    assert caught.value.column == 7


def test_a_failure_says_what_could_not_be_read() -> None:
    with pytest.raises(EvaluationFailed, match=r"not a whole number: '10\.5'"):
        compile_sql("a > 10").evaluate({"a": "10.5"})
    with pytest.raises(EvaluationFailed, match="condition on the left"):
        compile_sql("TRUE = a").evaluate({"a": "true"})


def test_what_decides_early_spares_what_would_fail() -> None:
    assert compile_sql("a = 'x' OR a > 1").evaluate({"a": "x"}) is True
    assert compile_sql("a = 'y' AND a > 1").evaluate({"a": "x"}) is False
    with pytest.raises(EvaluationFailed):
        compile_sql("a > 1 OR a = 'x'").evaluate({"a": "x"})


def nested(around: str, inner: str, levels: int) -> str:
    opening, closing = around.split("…")
    return opening * levels + inner + closing * levels


@pytest.mark.parametrize(
    ("around", "levels"),
    [
        ("NOT (…)", 99),
        ("(…) IS NULL", 198),
        ("(TRUE AND …)", 198),
        ("(FALSE OR …)", 198),
        ("TRUE = (…)", 198),
        ("-(…) IS NULL", 66),
        ("1 > -(…)", 66),
    ],
)
def test_the_deepest_tree_runs_on_half_a_stack(around: str, levels: int) -> None:
    def deeper(frames: int, work: Callable[[], bool | None]) -> bool | None:
        return deeper(frames - 1, work) if frames else work()

    expression = nested(around, "a = 1", levels)
    deeper(400, lambda: compile_sql(expression).evaluate({"a": "1"}))
    with pytest.raises(EvaluationFailed):
        deeper(400, lambda: compile_sql(expression).evaluate({"a": "x"}))
    with pytest.raises(FilterError, match=f"more than {MAX_DEPTH} deep"):
        compile_sql(nested(around, "a = 1", MAX_DEPTH + 1))


class CountingReads(dict[str, str]):
    """Properties that know how often one was asked for."""

    reads = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.reads += 1
        return super().get(name, default)


def test_between_asks_its_operand_once_so_that_a_nest_of_them_stays_cheap() -> None:
    properties = CountingReads(a="1")
    expression = nested("-(…) BETWEEN 1 AND 2", "a = 1", 12)
    assert compile_sql(expression).evaluate(properties) is None
    assert properties.reads == 1


# Random trees. Each is drawn as a pair: its text, and its meaning by the plainest rules, on values
# that carry their Java type. A missing value is None; Thrown is an exception in Java.


class Thrown(Exception):
    """Java would throw."""


Value = tuple[str, Any] | None
Meaning = Callable[[dict[str, str]], Value]
Drawn = tuple[str, Meaning]


def read(kind: str, text: str) -> Any:
    if kind == "boolean":
        return text.lower() == "true"
    try:
        number = float(text) if kind == "double" else int(text)
    except ValueError:
        raise Thrown from None
    if kind != "double" and (text != text.strip() or (kind == "int" and width(number) == "long")):
        raise Thrown
    return number


def compared(left: tuple[str, Any], right: tuple[str, Any]) -> int:
    """-1, 0 or 1; -1 also for what cannot be compared, as in Java."""
    (left_kind, one), (right_kind, other) = left, right
    if left_kind == "boolean" and right_kind == "text":
        raise Thrown
    if "boolean" in (left_kind, right_kind) and not {left_kind, right_kind} <= {"boolean", "text"}:
        return -1
    if left_kind == "text" != right_kind:
        one = read(right_kind, one)
    elif right_kind == "text" != left_kind:
        other = read(left_kind, other)
    elif "double" in (left_kind, right_kind):
        one, other = float(one), float(other)
    return (one > other) - (one < other)


def conjunction(first: Meaning, second: Meaning, *, decisive: bool) -> Meaning:
    def mean(properties: dict[str, str]) -> Value:
        left = first(properties)
        if left == ("boolean", decisive):
            return left
        right = second(properties)
        if right == ("boolean", decisive):
            return right
        return None if left is None or right is None else ("boolean", not decisive)

    return mean


def inverted(condition: Meaning) -> Meaning:
    def mean(properties: dict[str, str]) -> Value:
        result = condition(properties)
        return None if result is None else ("boolean", not result[1])

    return mean


def ordered(first: Meaning, sign: str, second: Meaning) -> Meaning:
    def mean(properties: dict[str, str]) -> Value:
        left = first(properties)
        right = None if left is None else second(properties)
        if left is None or right is None:
            return None
        if left[0] == right[0] == "text":
            left, right = (("double", read("double", side[1])) for side in (left, right))
        answer = compared(left, right)
        return "boolean", {"<": answer < 0, ">": answer > 0, "<=": answer <= 0, ">=": answer >= 0}[
            sign
        ]

    return mean


def equal(first: Meaning, second: Meaning) -> Meaning:
    def mean(properties: dict[str, str]) -> Value:
        left, right = first(properties), second(properties)
        if left is None or right is None:
            return None if right is not None else ("boolean", left is None)
        return "boolean", compared(left, right) == 0

    return mean


def constant(value: Value) -> Meaning:
    return lambda _: value


def of_property(name: str) -> Meaning:
    return lambda properties: ("text", properties[name]) if name in properties else None


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def width(number: int) -> str:
    return "int" if abs(number) < 2**31 else "long"


names = st.sampled_from(["a", "b", "$c", "Not_"])
properties_drawn: st.SearchStrategy[Drawn] = names.map(lambda name: (name, of_property(name)))
small_texts = st.text("a1' -", max_size=3)
numbers: st.SearchStrategy[Drawn] = st.one_of(
    st.integers(0, 12).map(lambda number: (str(number), constant(("int", number)))),
    st.sampled_from([2**31 - 1, 2**31, 2**63 - 1]).map(
        lambda number: (f"{number}L", constant((width(number), number)))
    ),
    st.integers(0, 12).map(lambda number: (f"-{number}", constant(("int", -number)))),
    st.integers(1, 48).map(lambda n: (f"{n / 4!r}", constant(("double", n / 4)))),
    st.integers(1, 48).map(lambda n: (f"- {n / 4!r}", constant(("double", -n / 4)))),
)
texts: st.SearchStrategy[Drawn] = small_texts.map(
    lambda text: (quoted(text), constant(("text", text)))
)
TRUE: Drawn = ("TRUE", constant(("boolean", True)))
signs = st.sampled_from(["<", "<=", ">", ">="])
nots = st.sampled_from(["", "NOT "])


@st.composite
def orders(draw: st.DrawFn) -> Drawn:
    (left, first), (right, second) = (draw(properties_drawn | numbers) for _ in range(2))
    sign = draw(signs)
    return f"{left} {sign} {right}", ordered(first, sign, second)


@st.composite
def betweens(draw: st.DrawFn) -> Drawn:
    name, operand = draw(properties_drawn)
    # Literals the wrong way round would not compile, so one end is never a literal.
    (low, first), (high, second) = draw(properties_drawn), draw(properties_drawn | numbers)
    negated = draw(nots)
    lower, upper = ("<", ">") if negated else (">=", "<=")
    meaning = conjunction(
        ordered(operand, lower, first), ordered(operand, upper, second), decisive=bool(negated)
    )
    return f"{name} {negated}between {low} and {high}", meaning


@st.composite
def text_tests(draw: st.DrawFn) -> Drawn:
    name, operand = draw(properties_drawn)
    negated, how = draw(nots), draw(st.sampled_from(["CONTAINS", "startswith", "EndsWith", "IN"]))
    if how == "IN":
        members = draw(st.lists(small_texts, min_size=1, max_size=6))
        text = f"{name} {negated}IN ({', '.join(map(quoted, members))})"
        missing = None
    else:
        (sought,) = members = [draw(small_texts)]
        text = f"{name} {negated}{how} {quoted(sought)}"
        missing = ("boolean", False)

    def mean(properties: dict[str, str]) -> Value:
        value = operand(properties)
        if value is None or (how != "IN" and not sought):
            return missing
        found = {
            "IN": value[1] in members,
            "CONTAINS": members[0] in value[1],
            "startswith": value[1].startswith(members[0]),
            "EndsWith": value[1].endswith(members[0]),
        }[how]
        return "boolean", found is not bool(negated)

    return text, mean


@st.composite
def equalities(draw: st.DrawFn, inner: st.SearchStrategy[Drawn]) -> Drawn:
    # NULL would not compile here, nor would TRUE on the left of a literal.
    conditions = inner.filter(lambda drawn: drawn[0] not in ("TRUE", "NULL")).map(
        lambda drawn: (f"({drawn[0]})", drawn[1])
    )
    sides = properties_drawn | numbers | texts | conditions
    left, first = draw(sides)
    right, second = draw(sides | st.just(TRUE))
    meaning = equal(first, second)
    if draw(st.booleans()):
        return f"{left} = {right}", meaning
    return f"{left} <> {right}", inverted(meaning)


@st.composite
def compounds(draw: st.DrawFn, inner: st.SearchStrategy[Drawn]) -> Drawn:
    (left, first), (right, second) = draw(inner), draw(inner)
    match draw(st.sampled_from(["AND", "or", "NOT", "IS NULL", "IS not NULL"])):
        case "AND":
            return f"({left}) AND ({right})", conjunction(first, second, decisive=False)
        case "or":
            return f"({left}) or ({right})", conjunction(first, second, decisive=True)
        case "NOT":
            return f"NOT ({left})", inverted(first)
        case "IS NULL":
            return f"({left}) IS NULL", equal(first, constant(None))
        case _:
            return f"({left}) IS not NULL", inverted(equal(first, constant(None)))


leaves: st.SearchStrategy[Drawn] = st.one_of(
    orders(),
    betweens(),
    text_tests(),
    # In a condition's place a property is false, as its value is a text and no boolean.
    names.map(
        lambda name: (
            f"({name}) or FALSE",
            lambda properties: ("boolean", False) if name in properties else None,
        )
    ),
    st.just(TRUE),
    st.just(("NULL", constant(None))),
)
trees = st.recursive(leaves, lambda inner: equalities(inner) | compounds(inner), max_leaves=12)
values = st.sampled_from(["1", "2", "12", "-3", "2.5", "2147483648", "true", "TRUE", "a", "a1", ""])


@settings(max_examples=400, deadline=None)
@given(trees, st.dictionaries(names, values))
def test_random_trees_mean_what_the_plain_rules_say(
    drawn: Drawn, properties: dict[str, str]
) -> None:
    expression, meaning = drawn
    compiled = compile_sql(expression, strict=True)
    try:
        expected = meaning(properties)
    except Thrown:
        with pytest.raises(EvaluationFailed):
            compiled.evaluate(properties)
        return
    assert compiled.evaluate(properties) is (None if expected is None else expected[1])


WORDS = [*KEYWORDS, "a", "b", "1", "0.5", "9" * 20, "'x'", "'", "(", ")", ",", "+", "-", "--", "/*"]
SIGNS = ["=", "<>", "<", "<=", ">", ">=", "!", "\n", "*/"]


@settings(max_examples=300, deadline=None)
@given(
    st.text() | st.lists(st.sampled_from(WORDS + SIGNS), max_size=14).map(" ".join), st.booleans()
)
def test_any_text_compiles_or_is_refused_with_a_column(expression: str, strict: bool) -> None:
    try:
        compiled = compile_sql(expression, strict=strict)
    except FilterError as refusal:
        column = refusal.column
    else:
        column = 1
        for properties in ({}, {"a": "1", "b": "x"}, {"a": "é", "b": ""}):
            compiled.matches(properties)
    assert 1 <= column <= len(expression) + 1
