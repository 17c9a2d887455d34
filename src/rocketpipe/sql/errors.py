"""What is wrong with a statement, or with what it asks for, in a line and where to look."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.failures import lacking

#: What precedes and follows the sentence in which Spark says what is wrong.
_CONDITION: Final = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+;?\s*")
_PLACE: Final = re.compile(r"\(?line (\d+),? (pos|position) (\d+)\)?")
#: An error of ours that Spark's processes have told it of.
_OURS: Final = re.compile(r"\brocketpipe(?:\.\w+)*\.[A-Z]\w+: (.+)$", re.MULTILINE)
_TOO_LARGE: Final = re.compile(r"spark\.driver\.maxResultSize|OutOfMemoryError")
#: A failure that PySpark has not put into its own words is one of Java's, with what it came from.
_PY4J: Final = "An error occurred while calling"
_CAUSE: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_LONGEST: Final = 1000


class StatementFailed(RocketPipeError):
    """A statement cannot be run; the hint shows where, as Spark does."""

    def __init__(self, reason: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(reason)


def unknown_table(name: str, known: Collection[str]) -> StatementFailed:
    """Nothing has this name; what comes nearest is told."""
    folded = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), folded, 1, 0.5)
    meant = f"did you mean {folded[near[0]]}?" if near else "SHOW TABLES lists what there is"
    return StatementFailed(f"there is no table or topic {name!r}: {meant}")


def told_by_spark(message: str, statement: str) -> StatementFailed:
    """What Spark says of a statement, in one line, with the place that it names below it."""
    lack = lacking(message)
    if lack is not None:
        return StatementFailed(lack)
    if _TOO_LARGE.search(message):
        return StatementFailed(
            "the result is larger than Spark's driver can hold: ask for less, with LIMIT or an "
            "aggregate, or give it more, with --conf spark.driver.memory=8g "
            "--conf spark.driver.maxResultSize=6g"
        )
    ours = _OURS.search(message)
    if ours is not None:
        return StatementFailed(_short(ours[1]))
    first = _first_words(message.strip().splitlines())
    causes = _CAUSE.findall(message) if first.startswith(_PY4J) else []
    if causes:
        first = causes[-1]
    sentence = _STATE.sub(" ", _CONDITION.sub("", first)).strip(" ;")
    place = _PLACE.search(message)
    if place is None:
        return StatementFailed(_short(sentence))
    line, column = int(place[1]), int(place[3]) - (place[2] == "position")
    sentence = f"{_PLACE.sub('', sentence).strip(' ;.')} (line {line}, pos {column})"
    return StatementFailed(_short(sentence), _pointed(statement, line, column))


def _first_words(lines: Iterable[str]) -> str:
    """The sentence at the beginning, up to where Spark shows the statement or its plan."""
    kept: list[str] = []
    for line in lines:
        if line.startswith("== SQL") or (
            kept and (not line.strip() or line.startswith(("'", "+")))
        ):
            break
        kept.append(line.strip())
        if "SQLSTATE" in line:
            break
    return " ".join(kept)


def _pointed(statement: str, line: int, column: int) -> str:
    lines = statement.splitlines()
    if not 0 < line <= len(lines):
        return ""
    return f"{lines[line - 1]}\n  {' ' * column}^"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
