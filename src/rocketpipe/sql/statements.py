"""Statements as text: where one ends, which names it has, what kind it is.

Spark parses them; this looks only for what has to be known before. Whatever is blanked out keeps
its length, so that the places Spark tells of are those of the statement as it was typed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<name>`(?:``|[^`])*`|(?![rR]['"])\w+)
    |(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<open>[rR]?['"].*|`.*|/\*.*)
    |(?P<mark>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_SHOW_TABLES: Final = re.compile(
    r"SHOW\s+TABLES(?:\s+(?:FROM|IN)\s+`?(?P<inside>rocketpipe)`?)?"
    r"(?:\s+(?:LIKE\s+)?'(?P<like>[^']*)')?",
    re.IGNORECASE,
)
_EXPLAIN_KINDS: Final = frozenset({"EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL"})
#: What makes a statement use columns that it does not name.
_NAMELESS: Final = frozenset({"TABLE", "NATURAL", "IDENTIFIER", "EXECUTE", "PIVOT", "UNPIVOT"})


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a quoted text, a comment or a sign, and where it is."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The place behind it."""
        return self.start + len(self.text)

    def says(self, *words: str) -> bool:
        """Whether it is one of these words, in whatever case."""
        return self.kind in ("name", "mark") and self.text.upper() in words


@dataclass(frozen=True, slots=True)
class Insert:
    """``INSERT INTO target [(columns)] query``."""

    target: tuple[str, ...]
    #: None if values come in the order of the table's columns.
    columns: tuple[str, ...] | None
    #: Whether the query's own names say which value is which.
    by_name: bool
    #: The statement with everything but the query blanked out.
    query: str


@dataclass(frozen=True, slots=True)
class Listing:
    """``SHOW TABLES``, of everything or of ``rocketpipe``, as far as names fit a pattern."""

    system_only: bool = False
    pattern: str = "*"


def split(text: str) -> tuple[list[str], str]:
    """The statements that end with a semicolon, and what is left behind the last."""
    whole, start = [], 0
    for token in _tokens(text):
        if token.says(";"):
            whole.append(text[start : token.start])
            start = token.end
    return [each for each in whole if has_words(each)], text[start:]


def has_words(text: str) -> bool:
    """Whether there is more than blanks and comments."""
    return any(token.kind != "space" for token in _tokens(text))


def listing(text: str) -> Listing | None:
    """What a statement asks to be listed, if that is what it does."""
    found = _SHOW_TABLES.fullmatch(text.strip())
    if found is None:
        return None
    return Listing(found["inside"] is not None, found["like"] or "*")


def explained(text: str) -> str | None:
    """What an EXPLAIN is about, in its place, if the statement is one."""
    words = _words(text)
    if not words or not words[0].says("EXPLAIN"):
        return None
    behind = 2 if len(words) > 1 and words[1].says(*_EXPLAIN_KINDS) else 1
    return _from(text, words[behind].start) if len(words) > behind else None


def overwritten(text: str) -> bool:
    """Whether a statement would replace what a table holds."""
    words = _words(text)
    return len(words) > 1 and words[0].says("INSERT") and words[1].says("OVERWRITE")


def insert(text: str) -> Insert | None:
    """What a statement inserts where; None if it does not, or not in a way that is known here."""
    words = _words(text)
    if len(words) < 4 or not (words[0].says("INSERT") and words[1].says("INTO", "OVERWRITE")):
        return None
    at = 3 if words[2].says("TABLE") and words[3].kind == "name" else 2
    target, at = _name_at(words, at)
    if not target:
        return None
    by_name = [word.text.upper() for word in words[at : at + 2]] == ["BY", "NAME"]
    columns = None
    if by_name:
        at += 2
    else:
        columns, at = _columns_at(words, at)
    if not _begins_query(words[at : at + 2]):
        return None
    return Insert(target, columns, by_name, _from(text, words[at].start))


def columns_named(text: str, known: Collection[str]) -> list[str] | None:
    """Those of the known columns that a statement can use; None if it may use all of them."""
    words = _words(text)
    if not words or not words[0].says("SELECT", "WITH"):
        return None
    said = set()
    for number, word in enumerate(words):
        if word.says(*_NAMELESS) or word.kind == "open":
            return None
        if word.says("*") and not _counts_rows(words, number):
            return None
        if word.says("|") and words[number + 1 : number + 2] and words[number + 1].says(">"):
            return None
        if word.says("FROM") and _begins_from(words, number):
            return None
        if word.kind == "name":
            said.add(plain(word.text).lower())
    return [name for name in known if name.lower() in said]


def name_parts(text: str) -> tuple[str, ...]:
    """The parts of a name such as ```rocketpipe`.`groups```."""
    return _name_at(_words(text), 0)[0]


def plain(name: str) -> str:
    """A name without its back quotes."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def quoted(name: str) -> str:
    """A name as it may stand in a statement, whatever it has in it."""
    return "`" + name.replace("`", "``") + "`"


def _begins_query(words: Sequence[Token]) -> bool:
    """Whether a query begins here, and no options of Spark's, nor what is wrong anyhow."""
    if not words or not words[0].says("SELECT", "VALUES", "WITH", "TABLE", "FROM", "("):
        return False
    return not (words[0].says("WITH") and len(words) > 1 and words[1].says("("))


def _begins_from(words: Sequence[Token], number: int) -> bool:
    """Whether a query begins with this FROM, and so gives all columns."""
    before = words[number - 1]
    return before.says("(", ",", "UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "MINUS") or (
        before.says(")") and words[0].says("WITH")
    )


def _counts_rows(words: Sequence[Token], star: int) -> bool:
    around = words[max(star - 2, 0) : star + 2]
    return (
        len(around) == 4 and around[0].says("COUNT") and around[1].says("(") and around[3].says(")")
    )


def _name_at(words: Sequence[Token], at: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while at < len(words) and words[at].kind == "name":
        parts.append(plain(words[at].text))
        at += 1
        if not (at < len(words) and words[at].says(".")):
            break
        at += 1
    return tuple(parts), at


def _columns_at(words: Sequence[Token], at: int) -> tuple[tuple[str, ...] | None, int]:
    """The names in brackets; a query in brackets is none."""
    if not (at < len(words) and words[at].says("(")):
        return None, at
    names: list[str] = []
    here = at + 1
    while here + 1 < len(words) and words[here].kind == "name":
        names.append(plain(words[here].text))
        here += 1
        if words[here].says(")"):
            return tuple(names), here + 1
        if not words[here].says(","):
            break
        here += 1
    return None, at


def _from(text: str, start: int) -> str:
    return re.sub(r"[^\n]", " ", text[:start]) + text[start:]


def _words(text: str) -> list[Token]:
    return [token for token in _tokens(text) if token.kind != "space"]


def _tokens(text: str) -> Iterator[Token]:
    for found in _TOKEN.finditer(text):
        yield Token(str(found.lastgroup), found[0], found.start())
