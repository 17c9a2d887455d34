"""The dialect's reader, judged by what fastjson reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.protocol.json_dialect import (
    DialectError,
    Items,
    Members,
    Real,
    Tree,
    java_text,
    key_text,
    parse,
    quote,
)

GOLDEN = Path(__file__).parent / "golden"
TEXTS = json.loads((GOLDEN / "dialect.json").read_text())["texts"]

# fastjson reads these; we do not, because no peer writes them. NaN it reads as null.
REFUSED_HERE = {
    '{"a":NaN}',
    "[1 2]",
    '{"a":Set[1,2]}',
    '{"a":new Date(5)}',
    "{\"a\":x'41'}",
    '{"a":1}\x1a',
    "",
}


def plain(tree: Tree) -> object:
    if isinstance(tree, Members):
        return {key_text(key): plain(value) for key, value, _ in tree.pairs}
    if isinstance(tree, Items):
        return [plain(value) for value, _ in tree.items]
    return float(tree) if isinstance(tree, Real) else tree


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: repr(case["text"]))
def test_a_text_reads_as_at_fastjson(case: dict[str, str | None]) -> None:
    text, reads = case["text"], case["reads"]
    assert text is not None
    if reads is None or text in REFUSED_HERE:
        with pytest.raises(DialectError):
            parse(text)
        return
    expected = json.loads(reads)
    if "$ref" in text:  # followed by the one who takes the values
        expected["b"] = {"$ref": "$.a[0]"}
    if "12345678901234567890" in text:  # Java's golden form quotes what JavaScript would round
        expected["a"] = 12345678901234567890
    assert plain(parse(text)) == expected


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_strict_json_reads_as_json(value: object, ascii_only: bool, indent: int | None) -> None:
    assert plain(parse(json.dumps(value, ensure_ascii=ascii_only, indent=indent))) == value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_quoted_text_is_json_and_reads_back(text: str) -> None:
    assert json.loads(quote(text)) == text
    assert parse(quote(text)) == text


def test_escapes_are_those_of_fastjson() -> None:
    golden = json.loads((GOLDEN / "bodies.json").read_text())["bodies"]
    theirs = golden["every character that might be escaped"]
    text = json.loads(theirs)["text"]
    assert len(text) > 0x180
    assert f'"text":{quote(text)}' in theirs


@given(st.text(max_size=60))
def test_nonsense_is_refused_with_a_place(text: str) -> None:
    try:
        parse(text)
    except DialectError as error:
        place = error.at
        assert 0 <= place <= len(text)


@given(values, st.data())
def test_a_damaged_text_is_read_or_refused_by_name(value: object, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    damage = data.draw(st.text("{}[]:,\"'\\/*0-9eE.tfnu$@", max_size=3))
    cut = text[:at] + damage + text[at + data.draw(st.integers(0, 2)) :]
    try:
        parse(cut)
    except DialectError as error:
        place = error.at
        assert 0 <= place <= len(cut)


def test_values_and_depth_are_counted() -> None:
    assert parse("[[[]]]", max_depth=3) is not None
    with pytest.raises(DialectError, match="deeply") as caught:
        parse("[[[[]]]]", max_depth=3)
    assert caught.value.at == 3
    assert parse("[1,2]", max_values=3) is not None
    with pytest.raises(DialectError, match="more values"):
        parse("[1,2,3]", max_values=3)
    with pytest.raises(DialectError, match="more values"):
        parse("{1:1,2:2}", max_values=4)


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("9" * 65, 0, "too many digits"),
        ("[1e99999]", 7, "a comma"),
        ("-", 0, "without a number"),
        ('["\\q"]', 3, "an escape"),
        ('["\\u12"]', 3, "an escape"),
        ('["abc', 1, "without an end"),
        ("['\\", 3, "an escape"),
        ('["\\ud800x"]', 1, "surrogate"),
        ('["\\udc00\\ud800"]', 1, "surrogate"),
        ("/* open", 0, "a value"),
        ("{[1:2}", 3, "a comma"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, at: int, reason: str) -> None:
    with pytest.raises(DialectError, match=reason) as caught:
        parse(text)
    assert caught.value.at == at


def test_a_queue_as_a_key_prints_as_java_prints_it() -> None:
    tree = parse('{{"topic":"T","queueId":3,"brokerName":"b"}:1}')
    assert isinstance(tree, Members)
    assert key_text(tree.pairs[0][0]) == "MessageQueue [topic=T, brokerName=b, queueId=3]"
    assert tree.named("MessageQueue [topic=T, brokerName=b, queueId=3]") == (1, 44)


def test_numbers_keep_javas_text() -> None:
    assert [java_text(parse(text)) for text in ("1.50", "1e5", "-0.0", "0.0E3", "7")] == [
        "1.50",
        "1E+5",
        "0.0",
        "0E+2",
        "7",
    ]
