"""``rocketpipe sql``: topics, and what is known of a cluster, as tables."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.blocking import Admin
from rocketpipe.cli.parsers import Help
from rocketpipe.cli.terminal import connecting, spark_place
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.terminal.spark_progress import progress, stoppable
from rocketpipe.errors import ConfigError, RocketPipeError

if TYPE_CHECKING:
    from rocketpipe.sql.session import Result

EXAMPLES: Final = """\
examples:
  rocketpipe sql "SELECT tags, count(*) FROM orders GROUP BY 1"
  rocketpipe sql --schema orders='city STRING, cents INT' "SELECT sum(cents) FROM orders" -o json
  rocketpipe sql "SELECT * FROM rocketpipe.lag WHERE lag > 100"
  rocketpipe sql --master spark://spark-1:7077 < report.sql
"""

_LIMIT: Final = 1000
#: What Spark calls what it explains: text of many lines.
_PLAN: Final = ["plan"]
_PROMPT: Final = "sql> "
_MORE_PROMPT: Final = "  -> "
_HELP: Final = """\
A statement ends with a semicolon.
  SHOW TABLES;    \\d          topics, and tables of the cluster
  DESCRIBE t;     \\d t        columns of a table
  \\q, Ctrl-D                  leave
  Ctrl-C                      stop the statement that runs"""
_HISTORY_LINES: Final = 1000

Row = dict[str, Any]
#: Runs one statement and prints what comes of it.
Run = Callable[[str], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser this command."""
    parser.epilog = EXAMPLES
    parser.formatter_class = Help
    parser.add_argument(
        "statement", nargs="?", help="what to run; without it, lines from a prompt or a file"
    )
    connecting.add_flags(parser)
    parser.add_argument(
        "--schema",
        action="append",
        default=[],
        metavar="TOPIC='NAME TYPE, …'",
        help="what bodies of a topic hold as JSON, or TOPIC=avro:FILE, protobuf:FILE, "
        "avro:registry; else its attribute body.schema says so",
    )
    parser.add_argument(
        "--registry", metavar="URL", help="the schema registry whose ids such bodies begin with"
    )
    parser.add_argument(
        "--limit",
        type=_limit,
        default=_LIMIT,
        metavar="N",
        help=f"so many rows at most, 0 for all ({_LIMIT})",
    )
    spark_place.add_flags(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        import pyspark  # noqa: F401 - only to see whether it is there
    except ImportError as error:
        raise ConfigError("sql", "PySpark is not installed: install the extra spark") from error
    from rocketpipe.pipeline.session import opened
    from rocketpipe.sql.catalogue import Catalogue, schemas_given
    from rocketpipe.sql.session import SqlSession

    place = spark_place.spark_place(options)
    schemas = schemas_given(options.schema, options.registry)
    name_server = connecting.name_servers(options.namesrv)
    printer = Printer.of(options)
    with Admin(name_server) as admin:
        catalogue = Catalogue(admin, schemas, options.registry)
        catalogue.topics()  # a cluster that is away shows before Spark has to start
        _say_for_now("Spark starts")
        with opened(place, name="rocketpipe sql") as spark:
            _say_for_now("")
            session = SqlSession(spark, admin, name_server, catalogue)

            def run(statement: str) -> None:
                with stoppable(spark), ExitStack() as working:
                    working.enter_context(progress(spark))
                    with session.asked(statement, options.limit or None) as result:
                        if sys.stdout.isatty():
                            result.rows = _after(working.close, result.rows)
                        show(result, printer)

            if options.statement is not None:
                run_all(options.statement, run)
            elif sys.stdin.isatty():
                _prompt(run)
            else:
                run_all(sys.stdin.read(), run)
    return 0


def run_all(text: str, run: Run) -> None:
    """Run the statements of a text, in order; the last one may lack its semicolon."""
    from rocketpipe.sql.statements import has_words, split

    whole, rest = split(text)
    for statement in [*whole, rest] if has_words(rest) else whole:
        run(statement)


def show(result: Result, printer: Printer) -> None:
    """Print what a statement gave."""
    if result.said is not None:
        printer.line(result.said)
        return
    in_table = printer.form == "table"
    if in_table and list(result.columns) == _PLAN:
        for row in result.rows:
            printer.line(str(row[_PLAN[0]]).rstrip())
        return
    shown = 0

    def rows() -> Iterator[Row]:
        nonlocal shown
        for row in result.rows:
            shown += 1
            yield {name: printable(value, in_table=in_table) for name, value in row.items()}

    if result.columns:
        printer.rows(rows(), result.columns, list(result.columns))
    if result.more:
        sys.stderr.write(f"more rows: {shown:,} are shown, --limit 0 shows all\n")


def _after(first: Callable[[], None], rows: Iterable[Row]) -> Iterator[Row]:
    """Rows, with something done before any is out: what tells of progress is on the same screen."""
    for row in rows:
        first()
        yield row


def printable(value: Any, *, in_table: bool) -> Any:
    """A value as it can be printed, with all its digits; bytes are read as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime):
        exact = "microseconds" if value.microsecond % 1000 else "milliseconds"
        return value.isoformat(sep=" ", timespec=exact)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        if not math.isfinite(value):  # JSON has no numbers for these; Spark's has these words
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return repr(value) if in_table else value
    if isinstance(value, Mapping):
        return {
            str(printable(name, in_table=in_table)): printable(each, in_table=in_table)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [printable(each, in_table=in_table) for each in value]
    return value


def _prompt(run: Run) -> None:
    with _history():
        for statement in typed(input):
            try:
                run(statement)
            except RocketPipeError as error:
                hint = getattr(error, "hint", "")
                sys.stderr.write(f"{error}\n" + (f"  {hint}\n" if hint else ""))
            except KeyboardInterrupt:
                sys.stderr.write("stopped\n")


def typed(ask: Callable[[str], str]) -> Iterator[str]:
    """Statements as they are typed, until somebody has enough."""
    from rocketpipe.sql.statements import has_words, quoted, split

    kept = ""
    while True:
        try:
            line = ask(_MORE_PROMPT if has_words(kept) else _PROMPT)
        except EOFError:
            sys.stdout.write("\n")
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            kept = ""
            continue
        word, _, rest = line.strip().rstrip(";").partition(" ")
        if not has_words(kept) and (word.startswith("\\") or word.lower() in ("quit", "exit")):
            if word == "\\d":
                name = rest.strip()
                is_plain = "." in name or name.startswith("`")
                yield f"DESCRIBE {name if is_plain else quoted(name)}" if name else "SHOW TABLES"
            elif word in ("\\q", "quit", "exit"):
                return
            else:
                sys.stdout.write(f"{_HELP}\n")
            continue
        whole, kept = split(f"{kept}{line}\n")
        yield from whole


@contextmanager
def _history() -> Iterator[None]:
    """Have lines typed before at hand, and keep those of now for the next time."""
    try:
        import readline
    except ImportError:  # a Python without it
        yield
        return
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = state / "rocketpipe" / "sql_history"
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            readline.set_history_length(_HISTORY_LINES)
            readline.write_history_file(path)


def _say_for_now(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= (1 << 31) - 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows; 0 is all")
    return int(text)
