"""Rules on the rows of a table, declared beside it, counted in each run.

In Python, under the decorator of the table:

    @dp.table
    @expect("cents >= 0", "drop")
    @expect("city IS NOT NULL", "quarantine", name="has a city")
    def paid(): ...

In SQL, as comments before the statement:

    -- expect drop: cents >= 0
    -- expect quarantine: city IS NOT NULL
    CREATE STREAMING TABLE paid AS SELECT …

A row does by a rule if the condition is true; one that is NULL is not. Every rule is counted over
all rows. Nothing here is an engine: a rule is an observation and a filter of the same query, and
rows in quarantine are a table of their own, ``paid_quarantine``, that another flow fills.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, cast

from rocketpipe.projects.errors import PipelineError

WARN: Final = "warn"
DROP: Final = "drop"
QUARANTINE: Final = "quarantine"
FAIL: Final = "fail"
ACTIONS: Final = (WARN, DROP, QUARANTINE, FAIL)
#: What the observations of rules are called: this, the action, and the rule.
OBSERVED: Final = "rocketpipe expect "
#: The column in which rows in quarantine say which rules they broke.
BROKEN: Final = "broken_rules"

_RULES: Final = "__rocketpipe_rules__"
_COMMENT: Final = re.compile(r"^\s*--\s*expect\s+(?P<rest>.*?)\s*$", re.IGNORECASE | re.MULTILINE)
_MADE: Final = re.compile(
    r"\s*(?P<head>CREATE\s+(?:OR\s+REFRESH\s+)?(?:STREAMING\s+TABLE|MATERIALIZED\s+VIEW)\s+"
    r"(?P<name>[`\w.]+).*?\bAS)\s+(?P<query>(?:SELECT|WITH|FROM)\b.*)",
    re.IGNORECASE | re.DOTALL,
)

Query = Callable[[], Any]


class BadRule(PipelineError):
    """A rule cannot be understood."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on rows, and what becomes of those that break it."""

    condition: str
    action: str
    name: str

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise BadRule(f"rule {self.name!r}: {self.action!r} is none of {', '.join(ACTIONS)}")
        if not self.condition.strip():
            raise BadRule("a rule has a condition, such as `cents >= 0`")

    @property
    def kept(self) -> str:
        """A condition that is never NULL."""
        return f"coalesce({self.condition}, false)"


def expect(
    condition: str, action: str = WARN, *, name: str | None = None
) -> Callable[[Query], Query]:
    """Declare a rule on the rows of a table or materialized view, under its decorator.

    ``action`` is ``warn`` (rows are kept, and counted), ``drop``, ``quarantine`` (they go into a
    table of their own), or ``fail`` (the run fails with the first).

    Raises:
        BadRule: If there is no such action, or no condition.
    """
    rule = Rule(condition, action, name or condition)

    def declared(query: Query) -> Query:
        rules, rows = getattr(query, _RULES, ((), query))
        return _with_rules(rows, (rule, *rules))

    return declared


def _with_rules(rows: Query, rules: Sequence[Rule]) -> Query:
    @wraps(rows)
    def checked() -> Any:
        return kept_rows(rows(), rules)

    setattr(checked, _RULES, (tuple(rules), rows))
    return checked


def rules_of(query: Query) -> tuple[tuple[Rule, ...], Query]:
    """The rules on a query, and the query without them."""
    return cast("tuple[tuple[Rule, ...], Query]", getattr(query, _RULES, ((), query)))


def kept_rows(frame: Any, rules: Sequence[Rule]) -> Any:
    """The rows that stay, each rule counted over all of them."""
    from pyspark.sql import functions

    for rule in rules:
        frame = frame.observe(
            f"{OBSERVED}{rule.action}: {rule.name}",
            functions.count(functions.lit(1)).alias("rows"),
            functions.count_if(functions.expr(f"NOT {rule.kept}")).alias("failed"),
        )
    for rule in rules:
        if rule.action == FAIL:
            told = functions.concat(
                functions.lit(f"a row breaks the rule {rule.name!r}: "),
                functions.to_json(functions.struct("*")),
            )
            frame = frame.where(
                functions.when(functions.expr(rule.kept), True).otherwise(
                    functions.raise_error(told)
                )
            )
        elif rule.action in (DROP, QUARANTINE):
            frame = frame.where(rule.kept)
    return frame


def quarantined_rows(frame: Any, rules: Sequence[Rule]) -> Any:
    """The rows that a rule sends into quarantine, with the rules that they broke."""
    from pyspark.sql import functions

    sending = [rule for rule in rules if rule.action == QUARANTINE]
    broken = functions.concat_ws(
        "; ",
        *(
            functions.when(functions.expr(f"NOT {rule.kept}"), functions.lit(rule.name))
            for rule in sending
        ),
    )
    return frame.withColumn(BROKEN, broken).where(f"{BROKEN} != ''")


def quarantine_of(table: str) -> str:
    """The table that has a table's rows in quarantine."""
    return f"{table}_quarantine"


@dataclass(frozen=True, slots=True)
class Checked:
    """A statement of SQL with rules: what it makes, of which query."""

    name: str
    #: The statement up to its query.
    head: str
    query: str
    rules: tuple[Rule, ...]


def sql_parts(text: str) -> tuple[str, list[Checked]]:
    """The statements of a file that have no rules, as they are, and those that have.

    Raises:
        BadRule: If a comment is no rule, or stands before what can have none.
    """
    if _COMMENT.search(text) is None:
        return text, []
    plain, checked = [], []
    for statement in split_statements(text):
        rules = tuple(_rule(found["rest"]) for found in _COMMENT.finditer(statement))
        if not rules:
            plain.append(statement)
            continue
        made = _MADE.fullmatch(_without_comments(statement))
        if made is None:
            raise BadRule(
                f"-- expect {rules[0].action}: {rules[0].name}: rules stand before CREATE "
                "STREAMING TABLE or CREATE MATERIALIZED VIEW name AS SELECT …"
            )
        checked.append(Checked(made["name"], made["head"], made["query"], rules))
    return ";\n".join(plain), checked


def split_statements(text: str) -> list[str]:
    """A file of SQL cut at its semicolons, comments and texts left whole."""
    parts = re.split(r"((?:--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|[^;])+)", text, flags=re.DOTALL)
    return [part for part in parts if part.strip(" \n\t;")]


def _rule(text: str) -> Rule:
    action, colon, condition = text.partition(":")
    if not colon or action.strip().lower() not in ACTIONS:
        raise BadRule(
            f"-- expect {text}: write `-- expect ACTION: CONDITION`, ACTION one of "
            f"{', '.join(ACTIONS)}"
        )
    return Rule(condition.strip(), action.strip().lower(), condition.strip())


def _without_comments(statement: str) -> str:
    return re.sub(
        r"('(?:[^'\\]|\\.|'')*')|--[^\n]*|/\*.*?\*/",
        lambda found: found[1] or " ",
        statement,
        flags=re.DOTALL,
    ).strip()
