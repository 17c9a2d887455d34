"""As much of YAML as is read, and all that is refused with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.auth.plain.yaml import MAX_BYTES, Fields, Node, Text, Texts, YamlRefused, read_yaml

yaml = pytest.importorskip("yaml")


def plain(node: Node) -> object:
    if isinstance(node, Text):
        return node.value
    if isinstance(node, Texts):
        return [plain(each) for each in node.items]
    return {key: plain(each) for key, each in node.items.items()}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n\n",
        "---\na: b\n",
        "a: b # c\nd: 'e # f'\ng: \"h\"\n",
        "a:\n  - b\n  - c=d|e\n",
        "a:\n- b\n- c\nd: e\n",
        "a:\n- b: c\n  d:\n  - e\n  - f\n- b: g\n",
        "a:\n  - b: c\n    d:\n      - e\n\n      - f\n  -\n    b: g\n",
        "a: [b, 'c, d', \"e\"]\nf: []\ng:\n",
        "a: it''s\nb: 'it''s'\nc: \"a\\\\b\\\"c\"\n",
        "a: 10.1.2.*\nb: x#y\nc: a:b\nd: ~\ne: null\n",
        "\ufeffa: b\r\nc: d\r\n",
    ],
)
def test_what_is_read_is_what_yaml_says(text: str) -> None:
    found = plain(read_yaml(text.encode()))
    assert found == (yaml.load(text, Loader=yaml.BaseLoader) or {}) or _with_nothing(found, text)


def _with_nothing(found: object, text: str) -> bool:
    """The other reader has empty texts where nothing is said."""

    def emptied(value: object) -> object:
        if isinstance(value, dict):
            return {key: emptied(each) for key, each in value.items()}
        if isinstance(value, list):
            return [emptied(each) for each in value]
        return None if value in ("", "~", "null") else value

    return found == emptied(yaml.load(text, Loader=yaml.BaseLoader))


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a:\n\t- b\n", 2, "tab"),
        ("a: b\tc\n", 1, "tab"),
        ("a: &x b\n", 1, "anchor"),
        ("a: b\nc: *x\n", 2, "alias"),
        ("a:\n  - *\n", 2, "alias"),
        ("a: !!str b\n", 1, "tag"),
        ("a: |\n  b\n", 1, "several lines"),
        ("a: >\n  b\n", 1, "several lines"),
        ("a: {b: c}\n", 1, "map in one line"),
        ("a: [b, [c]]\n", 1, "list"),
        ("a: [b\n", 1, "same line"),
        ("a: [b] c\n", 1, "follows"),
        ("a: 'b' c\n", 1, "follows"),
        ("a: 'b\n", 1, "does not end"),
        ('a: "\\x41"\n', 1, "single quotes"),
        ("a: b\na: c\n", 2, "already"),
        ("a: b\n  c: d\n", 2, "indented more"),
        ("  a: b\nc: d\n", 2, "indented less"),
        ("a:\n  - b\n c: d\n", 3, "indented"),
        ("a: b\n---\nc: d\n", 2, "second document"),
        ("<<: b\n", 1, "merged"),
        ("? a\n", 1, "several lines"),
        ("%YAML 1.2\n", 1, "directive"),
        ("a: b\ntext\n", 2, "no 'key: value'"),
        ("a: b: c\n", 1, "a key in a text"),
        ("- a\n", 1, "keys are expected"),
        ("a:\n  - - b\n", 2, "list in a list"),
        ("a: b\x00c\n", 1, "cannot be seen"),
        ("a:\n" + "".join(f"{'  ' * n}k:\n" for n in range(1, 20)), 10, "deeply"),
    ],
)
def test_what_is_more_than_that_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(YamlRefused, match=reason) as error:
        read_yaml(text.encode())
    assert error.value.line == line


def test_ten_megabytes_and_what_is_no_text_are_refused_with_a_line() -> None:
    with pytest.raises(YamlRefused, match=f"more than {MAX_BYTES}") as error:
        read_yaml(b"# a line\n" * 1_200_000)
    assert error.value.line == MAX_BYTES // 9 + 1
    with pytest.raises(YamlRefused, match="UTF-8") as error:
        read_yaml(b"a: b\nc: \xff\n")
    assert error.value.line == 2


@given(st.text(alphabet="ab:-# \n[],'\"&*!|\t{}", max_size=60))
def test_whatever_comes_is_read_or_refused(text: str) -> None:
    line = 1
    try:
        assert isinstance(read_yaml(text.encode()), Fields)
    except YamlRefused as error:
        line = error.line
    assert 1 <= line <= text.count("\n") + 1
