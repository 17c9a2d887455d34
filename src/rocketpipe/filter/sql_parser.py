"""SQL92 expressions from text to tree.

From what binds least to what binds most:

    OR
    AND
    =  <>  IS NULL  IS NOT NULL
    >  >=  <  <=  [NOT] BETWEEN … AND …  [NOT] IN (…)  [NOT] CONTAINS|STARTSWITH|ENDSWITH '…'
    NOT  -  +                                    so NOT a = 1 reads (NOT a) = 1, as in RocketMQ
    property, literal, ( … )

Operators of one line group to the left. An expression ends where no operator follows; RocketMQ
ignores the rest, and so does ``parse`` unless it is told to be strict.

The parser keeps what is open on a stack of its own, not on Python's, so depth is an error with a
column and never a ``RecursionError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from rocketpipe.errors import FilterError
from rocketpipe.filter import sql_tree as tree
from rocketpipe.filter.sql_lexer import Lexer, Token, TokenKind
from rocketpipe.filter.sql_tree import Kind, Literal, Node, Property

#: RocketMQ has no limit. An IN list of thousands of ids fits into this one, and a broker that
#: keeps an expression for each of its groups stays within its memory.
MAX_EXPRESSION_CHARS: Final = 65_536

#: Parentheses, signs and NOTs open at once, and levels of the tree, which is evaluated by
#: recursion. A chain of ANDs or ORs is one level, however long.
MAX_DEPTH: Final = 200

#: What asking an expression about a message may cost: one for each AND, OR, NOT, sign and test,
#: whatever the length of an IN list, and as many as these for a search through a text. RocketMQ has
#: no limit. It is a thousand comparisons joined by OR, each of which is asked for every message.
MAX_COST: Final = 2048
SEARCH_COST: Final = 8

_OR, _AND, _EQUALITY, _COMPARISON = range(1, 5)
_LEVELS: Final = {
    "OR": _OR,
    "AND": _AND,
    "=": _EQUALITY,
    "<>": _EQUALITY,
    "IS": _EQUALITY,
    ">": _COMPARISON,
    ">=": _COMPARISON,
    "<": _COMPARISON,
    "<=": _COMPARISON,
    "NOT": _COMPARISON,
    "BETWEEN": _COMPARISON,
    "IN": _COMPARISON,
    "CONTAINS": _COMPARISON,
    "STARTSWITH": _COMPARISON,
    "ENDSWITH": _COMPARISON,
}
_BINARY: Final = frozenset(["OR", "AND", "=", "<>", ">", ">=", "<", "<="])
_SEARCHES: Final = frozenset(["CONTAINS", "STARTSWITH", "ENDSWITH"])
_PREFIXES: Final = frozenset(["NOT", "-", "+"])
_CONSTANTS: Final = {"TRUE": tree.TRUE, "FALSE": tree.FALSE, "NULL": tree.NULL}

_SPOKEN: Final = frozenset([TokenKind.KEYWORD, TokenKind.SIGN])


def parse(expression: str, *, strict: bool = False) -> Node:
    """Read an expression into its tree; ``strict`` refuses text after its end.

    Raises:
        FilterError: If RocketMQ would not compile it, or it exceeds a limit of this module.
    """
    return parse_priced(expression, strict=strict)[0]


def parse_priced(expression: str, *, strict: bool = False) -> tuple[Node, int]:
    """Read an expression as `parse` does; gives its tree, and what it costs to ask it.

    Raises:
        FilterError: If RocketMQ would not compile it, or it exceeds a limit of this module.
    """
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise FilterError(
            f"an expression of {len(expression)} characters; {MAX_EXPRESSION_CHARS} are allowed",
            MAX_EXPRESSION_CHARS + 1,
        )
    parser = _Parser(expression)
    return parser.parse(strict=strict), parser.cost


@dataclass(slots=True)
class _Operand:
    node: Node
    depth: int
    column: int


@dataclass(slots=True)
class _Open:
    """Something begun that waits for the operand to its right."""

    word: str  # an operator, a prefix or "("
    column: int
    level: int = 0  # of an operator between two operands; 0 for all else
    negated: bool = False  # of a BETWEEN
    low: _Operand | None = None  # of a BETWEEN, once it is read


class _Parser:
    def __init__(self, expression: str) -> None:
        self._lexer = Lexer(expression)
        self._token = self._lexer.next()
        self._operands: list[_Operand] = []
        self._open: list[_Open] = []
        self._parentheses: list[int] = []  # columns of those that are open
        self._prefixes = 0
        self.cost = 1

    def parse(self, *, strict: bool) -> Node:
        more = True
        while more:
            self._read_operand()
            more = self._read_operators()
        if self._parentheses:
            self._refuse(f"expected ) to close column {self._parentheses[-1]}")
        if strict and self._token.kind is not TokenKind.END:
            self._refuse("the expression is complete before this; it goes on with")
        self._close_down_to(_OR)
        (root,) = self._operands
        return tree.condition(root.node, root.column)

    def _read_operand(self) -> None:
        """Read the next property or literal, and what opens before it."""
        while True:
            token = self._token
            word = _word(token)
            if word == "(":
                self._parentheses.append(token.column)
            elif word in _PREFIXES:
                self._prefixes += 1
            else:
                break
            if len(self._parentheses) + self._prefixes > MAX_DEPTH:
                raise FilterError(f"nested more than {MAX_DEPTH} deep", token.column)
            if word != "(":
                self._pay(1, token.column)
            self._open.append(_Open(word, token.column))
            self._advance()
        leaf = _leaf(token)
        if leaf is None:
            self._refuse("expected a property, a literal or (")
        self._operands.append(_Operand(leaf, 1, token.column))
        self._advance()

    def _read_operators(self) -> bool:
        """Read what follows an operand; True when another operand has to come."""
        highest = _COMPARISON
        while True:
            if self._close_unary():
                return True
            token = self._token
            word = _word(token)
            if word == ")" and self._parentheses:
                self._close_down_to(_OR)
                self._open.pop()
                self._parentheses.pop()
                self._advance()
                highest = _COMPARISON
                continue
            level = _LEVELS.get(word)
            if level is None or level > highest:
                return False
            self._advance()
            self._pay(1, token.column)
            # A chain of ANDs or ORs stays open until it ends, to become one node.
            self._close_down_to(level if level >= _EQUALITY else level + 1)
            if word == "IS":
                self._read_is_null(token.column)
                highest = _EQUALITY  # comparisons are over: in a IS NULL > 1 the rest is ignored
            elif word in _BINARY:
                self._open.append(_Open(word, token.column, level))
                return True
            else:
                negated = word == "NOT"
                if negated:
                    token = self._advance()
                if _word(token) == "BETWEEN":
                    self._open.append(_Open("BETWEEN", token.column, negated=negated))
                    return True
                self._read_text_test(token, negated=negated)

    def _read_is_null(self, column: int) -> None:
        negated = _word(self._token) == "NOT"
        if negated:
            self._advance()
        self._expect("NULL")
        operand = self._operands.pop()
        self._push(tree.Equality(operand.node, tree.NULL), column, operand)
        if negated:
            self._push(tree.Not(self._operands[-1].node), column, self._operands.pop())

    def _read_text_test(self, token: Token, *, negated: bool) -> None:
        """Read IN or a search, the word itself being read already."""
        word = _word(token)
        if word == "IN":
            self._expect("(")
            texts = [self._expect_text()]
            while _word(self._token) == ",":
                self._advance()
                texts.append(self._expect_text())
            self._expect(")")
            operand = self._operands.pop()
            node: Node = tree.membership(
                operand.node, frozenset(texts), token.column, negated=negated
            )
        elif word in _SEARCHES:
            self._pay(SEARCH_COST - 1, token.column)
            sought = self._expect_text()
            operand = self._operands.pop()
            node = tree.Search(word, operand.node, sought, negated)
        else:
            raise FilterError(f"NOT before {token}", token.column)
        self._push(node, token.column, operand)

    def _close_unary(self) -> bool:
        """Close prefixes and BETWEENs around the last operand; True when a high end has to come."""
        while self._open:
            opened = self._open[-1]
            if opened.level or opened.word == "(":
                break
            if opened.word == "BETWEEN" and opened.low is None:
                opened.low = self._operands.pop()
                self._expect("AND")
                return True
            self._open.pop()
            last = self._operands.pop()
            if opened.low is not None:
                operand = self._operands.pop()
                node: Node = tree.between(
                    operand.node,
                    opened.low.node,
                    last.node,
                    opened.column,
                    negated=opened.negated,
                )
                self._push(node, opened.column, operand, opened.low, last)
                continue
            self._prefixes -= 1
            if opened.word == "NOT":
                self._push(tree.Not(tree.condition(last.node, last.column)), opened.column, last)
            elif opened.word == "-":
                self._push(tree.Negation(last.node), opened.column, last)
            else:
                self._operands.append(last)  # a plus does nothing, not even to texts
        return False

    def _close_down_to(self, level: int) -> None:
        """Close the operators of this parenthesis that bind at least as much as ``level``."""
        while self._open and self._open[-1].level >= level:
            opened = self._open.pop()
            count = 2
            if opened.level <= _AND:
                while self._open and self._open[-1].word == opened.word:
                    self._open.pop()
                    count += 1
            operands = self._operands[-count:]
            del self._operands[-count:]
            self._push(_joined(opened, operands), opened.column, *operands)

    def _pay(self, cost: int, column: int) -> None:
        self.cost += cost
        if self.cost > MAX_COST:
            raise FilterError(
                f"more than {MAX_COST} operators, of which CONTAINS, STARTSWITH and ENDSWITH count "
                f"{SEARCH_COST}: write a = 'x' OR a = 'y' as a IN ('x', 'y'), or filter by a tag "
                "or property that the producer sets for this",
                column,
            )

    def _push(self, node: Node, column: int, *parts: _Operand) -> None:
        depth = 1 + max(part.depth for part in parts)
        if depth > MAX_DEPTH:
            raise FilterError(f"nested more than {MAX_DEPTH} deep", column)
        self._operands.append(_Operand(node, depth, min(part.column for part in parts)))

    def _advance(self) -> Token:
        """Give the current token and go on to the next."""
        token = self._token
        self._token = self._lexer.next()
        return token

    def _expect(self, word: str) -> None:
        if _word(self._token) != word:
            self._refuse(f"expected {word}")
        self._advance()

    def _expect_text(self) -> str:
        if self._token.kind is not TokenKind.TEXT:
            self._refuse("expected a text in single quotes")
        return tree.text_literal(self._advance().text)

    def _refuse(self, reason: str) -> NoReturn:
        raise FilterError(f"{reason}: {self._token}", self._token.column)


def _word(token: Token) -> str:
    """The keyword or sign that a token is; empty for all else."""
    return token.text if token.kind in _SPOKEN else ""


def _leaf(token: Token) -> Node | None:
    match token.kind:
        case TokenKind.NAME:
            return Property(token.text)
        case TokenKind.TEXT:
            return Literal(Kind.TEXT, tree.text_literal(token.text))
        case TokenKind.WHOLE:
            return tree.whole_literal(token.text, token.column)
        case TokenKind.DECIMAL:
            return tree.decimal_literal(token.text, token.column)
        case TokenKind.KEYWORD:
            return _CONSTANTS.get(token.text)
        case _:
            return None


def _joined(opened: _Open, operands: list[_Operand]) -> Node:
    if opened.level <= _AND:
        terms = tuple(tree.condition(term.node, term.column) for term in operands)
        return tree.AllOf(terms) if opened.level == _AND else tree.AnyOf(terms)
    left, right = (operand.node for operand in operands)
    if opened.word == "=":
        return tree.equality(left, right, opened.column)
    if opened.word == "<>":
        return tree.Not(tree.equality(left, right, opened.column))
    return tree.order(opened.word, left, right, opened.column)
