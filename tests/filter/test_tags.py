from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import FilterError
from rocketpipe.filter.java_text import trim
from rocketpipe.filter.tags import (
    ALL_TAGS,
    MAX_EXPRESSION_CHARS,
    MAX_TAGS,
    TagFilter,
    parse_tags,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "tags.json").read_text("utf-8"))


@pytest.mark.parametrize("row", GOLDEN["rows"], ids=lambda row: repr(row[0]))
def test_expressions_read_as_in_java(row: tuple[str, str | None, dict[str, int]]) -> None:
    expression, kept, tags = row
    if tags:
        assert parse_tags(expression) == TagFilter(kept, frozenset(tags), frozenset(tags.values()))
    elif not trim(expression) or kept == "*":
        # Java keeps a blank text and then delivers nothing; here it asks for all.
        assert parse_tags(expression) == ALL_TAGS
    else:
        # Java refuses "||" alone, and keeps "|| ||" to deliver nothing.
        with pytest.raises(FilterError, match="without a tag"):
            parse_tags(expression)


@pytest.mark.parametrize("expression", [None, "", "  ", "*"])
def test_nothing_said_means_all(expression: str | None) -> None:
    wanted = parse_tags(expression)
    assert wanted.expression == "*"
    assert wanted.matches_code(0)
    assert wanted.matches_code(12345)
    assert wanted.matches_tag(None)
    assert wanted.matches_tag("TagA")


def test_the_broker_chooses_by_the_low_32_bits_of_an_entry() -> None:
    wanted = parse_tags("TagA || a")
    assert wanted.codes == {2598919, 97}
    assert wanted.matches_code(2598919)
    assert wanted.matches_code(2598919 + (7 << 32))
    assert not wanted.matches_code(2598920)
    assert not wanted.matches_code(0)
    negative = TagFilter("x", frozenset(["x"]), frozenset([-5]))
    assert negative.matches_code(-5)
    assert negative.matches_code(0xFFFFFFFB)


def test_an_entry_without_a_usable_hash_is_let_through() -> None:
    assert parse_tags("TagA").matches_code(None)


def test_the_consumer_tells_apart_what_shares_a_hash() -> None:
    wanted = parse_tags("AaAa")
    (code,) = parse_tags("BBBB").codes
    assert wanted.matches_code(code)
    assert wanted.matches_tag("AaAa")
    assert not wanted.matches_tag("BBBB")
    assert not wanted.matches_tag(None)


def test_too_many_tags_are_refused_where_they_become_too_many() -> None:
    enough = "||".join(f"t{number:04}" for number in range(MAX_TAGS))
    assert len(parse_tags(enough).tags) == MAX_TAGS
    assert parse_tags(enough + "||t0000").tags == parse_tags(enough).tags
    with pytest.raises(FilterError, match=str(MAX_TAGS)) as caught:
        parse_tags(enough + "||more")
    assert caught.value.column == len(enough) + 3


def test_a_text_too_long_is_refused() -> None:
    assert parse_tags("x" * MAX_EXPRESSION_CHARS).tags
    with pytest.raises(FilterError) as caught:
        parse_tags("x" * (MAX_EXPRESSION_CHARS + 1))
    assert caught.value.column == MAX_EXPRESSION_CHARS + 1


@given(st.text() | st.text("|* \tAB"))
def test_any_text_is_read_or_refused(expression: str) -> None:
    try:
        wanted = parse_tags(expression)
    except FilterError:
        assert not trim(expression.replace("||", ""))
    else:
        assert all(tag == trim(tag) and tag and "||" not in tag for tag in wanted.tags)
        assert wanted == ALL_TAGS or wanted.expression == expression
        assert all(wanted.matches_tag(tag) for tag in wanted.tags)
        assert all(wanted.matches_code(code) for code in wanted.codes)
