"""SQL92 expressions as tokens.

    word      [A-Za-z_$][A-Za-z0-9_$]*        a keyword in any case, or a property's exact name
    whole     0, or [1-9][0-9]*[lL]?          so 010 is two numbers, and 0L a number and a word
    decimal   5.5   5.   .5   5e10   5.5E-10
    text      'it''s'                         any character, line ends too; '' is one quote
    sign      = <> > >= < <= ( ) , + -
    skipped   blank, tab, LF, CR, FF;  -- to the end of its line;  /* to the next */

As in RocketMQ, the longest token wins, ``--`` without a line end after it is two minus signs, and
whatever starts no token (``!``, ``"``, ``.``, ``%``, ``;`` …) is an error once a reader gets there.
Tokens are found one by one, as they are asked for: text behind a whole expression is never looked
at, and may be anything.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from rocketpipe.errors import FilterError

_LOGIC: Final = ("AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE")
_TESTS: Final = ("BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH")
KEYWORDS: Final = frozenset(_LOGIC + _TESTS)


class TokenKind(Enum):
    """What a token is, before anyone knows what it is there for."""

    KEYWORD = "keyword"
    NAME = "name"
    WHOLE = "whole"
    DECIMAL = "decimal"
    TEXT = "text"
    SIGN = "sign"
    END = "end"


class Token(NamedTuple):
    """One token: keywords in capitals, texts as they stand, ``column`` counted from 1."""

    kind: TokenKind
    text: str
    column: int

    def __str__(self) -> str:
        if self.kind is TokenKind.END:
            return "the end"
        return self.text if len(self.text) <= 40 else self.text[:40] + "…"


# ASCII classes are spelled out, as \w and \d would take other scripts. Quantifiers are possessive
# (``++``) except in a text, whose last '' may turn out to be its end and the next one's beginning,
# and around groups, which Python before 3.11.3 gets wrong.
_TOKEN: Final = re.compile(
    r"""
      (?P<skipped> [ \t\n\r\f]++ | --[^\n\r]*+[\n\r] | /\*[^*]*+\*++(?:[^/*][^*]*+\*++)*/ )
    | (?P<word>    [A-Za-z_$][A-Za-z0-9_$]*+ )
    | (?P<decimal> [0-9]++(?:\.[0-9]*+(?:[eE][+-]?[0-9]++)?|[eE][+-]?[0-9]++)
                 | \.[0-9]++(?:[eE][+-]?[0-9]++)? )
    | (?P<whole>   0 | [1-9][0-9]*+[lL]? )
    | (?P<text>    '[^']*+(?:''[^']*+)*' )
    | (?P<sign>    <> | <= | >= | [=<>(),+-] )
    """,
    re.VERBOSE,
)


class Lexer:
    """Gives the tokens of one expression, in order; at the end, END for ever."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._at = 0

    def next(self) -> Token:
        """Find the next token.

        Raises:
            FilterError: If no token starts here.
        """
        expression = self._expression
        while self._at < len(expression):
            at = self._at
            match = _TOKEN.match(expression, at)
            if match is None:
                raise FilterError(_complaint(expression, at), at + 1)
            self._at = match.end()
            group = match.lastgroup
            if group == "skipped":
                continue
            if group == "word":
                keyword = match[0].upper()
                if keyword in KEYWORDS:
                    return Token(TokenKind.KEYWORD, keyword, at + 1)
                return Token(TokenKind.NAME, match[0], at + 1)
            return Token(TokenKind(group), match[0], at + 1)
        return Token(TokenKind.END, "", len(expression) + 1)


def _complaint(expression: str, at: int) -> str:
    if expression[at] == "'":
        return "a text without its closing quote"
    if expression.startswith("/*", at):
        return "a comment without its closing */"
    return f"no word, number, text or operator starts with {expression[at]!r}"
