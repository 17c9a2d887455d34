from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import FilterError
from rocketpipe.filter.sql_lexer import KEYWORDS, Lexer, Token, TokenKind


def tokens(expression: str) -> list[Token]:
    lexer = Lexer(expression)
    found = []
    while (token := lexer.next()).kind is not TokenKind.END:
        found.append(token)
    return found


def texts(expression: str) -> list[str]:
    return [token.text for token in tokens(expression)]


def test_every_kind_of_token_has_its_column() -> None:
    assert tokens("Not a1 >= 10L\n<>.5e1 'x'") == [
        Token(TokenKind.KEYWORD, "NOT", 1),
        Token(TokenKind.NAME, "a1", 5),
        Token(TokenKind.SIGN, ">=", 8),
        Token(TokenKind.WHOLE, "10L", 11),
        Token(TokenKind.SIGN, "<>", 15),
        Token(TokenKind.DECIMAL, ".5e1", 17),
        Token(TokenKind.TEXT, "'x'", 22),
    ]


def test_the_end_comes_again_and_again() -> None:
    lexer = Lexer("a ")
    lexer.next()
    assert lexer.next() == lexer.next() == Token(TokenKind.END, "", 3)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("010", ["0", "10"]),
        ("0L", ["0", "L"]),
        ("1l2", ["1l", "2"]),
        ("00.5", ["00.5"]),
        ("1..2", ["1.", ".2"]),
        ("1e", ["1", "e"]),
        ("1e+", ["1", "e", "+"]),
        ("1.5f", ["1.5", "f"]),
        ("1.e5", ["1.e5"]),
        ("0x1F", ["0", "x1F"]),
        ("a-b", ["a", "-", "b"]),
        ("<>=<=>", ["<>", "=", "<=", ">"]),
        ("NOTa", ["NOTa"]),
        ("$_9", ["$_9"]),
        ("'it''s'", ["'it''s'"]),
        ("'a' 'b'", ["'a'", "'b'"]),
        ("'two\nlines'", ["'two\nlines'"]),
        ("a--1", ["a", "-", "-", "1"]),
        ("a--1\nb", ["a", "b"]),
        ("a--1\r\nb", ["a", "b"]),
        ("a/**/b/***/c/* * / */d", ["a", "b", "c", "d"]),
        ("/*/ a */ b", ["b"]),
    ],
)
def test_the_longest_token_wins(expression: str, expected: list[str]) -> None:
    assert texts(expression) == expected


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_keywords_are_known_in_any_case(keyword: str) -> None:
    for spelling in (keyword, keyword.lower(), keyword.capitalize()):
        assert tokens(spelling) == [Token(TokenKind.KEYWORD, keyword, 1)]


@pytest.mark.parametrize(
    "char", ['"', "!", "%", "*", "/", ".", ";", "#", "é", "\u00a0", "\x0b", "ſ"]
)
def test_what_starts_no_token_is_refused_at_its_column(char: str) -> None:
    with pytest.raises(FilterError, match="no word, number, text or operator") as caught:
        tokens(f"a {char}")
    assert caught.value.column == 3


@pytest.mark.parametrize(
    ("expression", "reason", "column"),
    [
        ("a 'x", "closing quote", 3),
        ("'x''y", "closing quote", 4),
        ("a /* x", r"closing \*/", 3),
    ],
)
def test_what_is_never_closed_is_refused_where_it_opens(
    expression: str, reason: str, column: int
) -> None:
    with pytest.raises(FilterError, match=reason) as caught:
        tokens(expression)
    assert caught.value.column == column


def test_nothing_is_looked_at_before_it_is_asked_for() -> None:
    lexer = Lexer('a "')
    assert lexer.next().text == "a"
    with pytest.raises(FilterError):
        lexer.next()


@given(st.text() | st.text("aN'-/*\n 01.eEL<>=(),+$"))
def test_any_text_is_cut_into_tokens_or_refused(expression: str) -> None:
    try:
        found = tokens(expression)
    except FilterError as refusal:
        column = refusal.column
    else:
        column = len(expression)
        for token in found:
            at = token.column - 1
            assert expression[at : at + len(token.text)].upper() == token.text.upper()
    assert 0 <= column <= len(expression)


def test_a_long_token_is_shown_in_part() -> None:
    assert str(tokens("x" * 100)[0]) == "x" * 40 + "…"
    assert str(Lexer("").next()) == "the end"
