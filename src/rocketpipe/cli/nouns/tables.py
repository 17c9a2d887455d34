"""``rocketpipe table``: tables that follow topics."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, get_args

from rocketpipe.cli.repairs import tables as table_repairs
from rocketpipe.cli.terminal import connecting, spark_place
from rocketpipe.cli.terminal.arguments import count, duration_ms, port
from rocketpipe.cli.terminal.printing import Printer, add_format_flags
from rocketpipe.cli.verbs import Verbs
from rocketpipe.errors import ConfigError
from rocketpipe.tables.spec import (
    DEFAULT_BATCH_ROWS,
    DEFAULT_COMPACT_EVERY,
    Decode,
    Format,
    NewColumnsRule,
)

if TYPE_CHECKING:
    from rocketpipe.tables.table import FollowedTable

_EXAMPLES: Final = """\
examples:
  rocketpipe table follow orders --to lake/orders --decode json --schema 'city STRING, cents INT'
  rocketpipe table follow orders --to lake/orders --once
  rocketpipe table follow orders --to lake/days --decode text --partition-by date --keep 7d
  rocketpipe table follow orders --to lake/typed --decode avro --registry http://127.0.0.1:8081
  rocketpipe table show lake/orders
"""
EXAMPLES: Final = _EXAMPLES + table_repairs.EXAMPLES

_BATCH_COLUMNS: Final = ("batch", "rows", "bad_rows")
_NEVER: Final = "never"
_FOREVER: Final = "forever"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    follow = verbs.add_local(
        "follow", "fill a table with a topic's messages, each once, until Ctrl-C", _follow
    )
    follow.add_argument("topic", nargs="?", help="may be left out for a table that is there")
    follow.add_argument(
        "--to",
        required=True,
        metavar="DIR|postgresql://…",
        help="the directory of the table, or the database that it is in; never with a password",
    )
    follow.add_argument(
        "--state",
        metavar="DIR",
        help="for a database: the directory of checkpoint and settings (./TABLE.follow)",
    )
    follow.add_argument("--once", action="store_true", help="end when all that is there is read")
    follow.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=port,
        help="rows, batch times and lag for Prometheus, on this machine",
    )
    _add_what(follow)
    _add_how(follow)
    connecting.add_flags(follow)
    spark_place.add_flags(follow)

    show = verbs.add_local("show", "what a table is, and how far it has come", _show)
    show.add_argument("table", metavar="DIR", help="the directory of the table")
    add_format_flags(show)
    table_repairs.add_verbs(verbs)


def _add_what(parser: argparse.ArgumentParser) -> None:
    """What a table is: given when it is made, and kept with it."""
    what = parser.add_argument_group("what the table is; kept with it, so needed once")
    what.add_argument("--decode", choices=get_args(Decode), help="what bodies hold (none)")
    what.add_argument(
        "--schema", metavar="COLUMNS", help="the fields of JSON bodies: 'city STRING, cents INT'"
    )
    what.add_argument(
        "--schema-file",
        metavar="FILE",
        help="the schema of Avro bodies (.avsc), or of Protobuf's (a FileDescriptorSet of protoc)",
    )
    what.add_argument(
        "--registry",
        metavar="URL",
        help="the schema registry whose ids bodies begin with; it has the schema, too, if there is "
        "no file",
    )
    what.add_argument("--subject", metavar="NAME", help="of the registry (TOPIC-value)")
    what.add_argument("--message", metavar="NAME", help="which Protobuf message bodies are")
    what.add_argument("--time-zone", metavar="ZONE", help="of times without an offset (UTC)")
    what.add_argument(
        "--properties",
        action="store_true",
        default=None,
        help="columns for the properties of messages, and for when they were sent",
    )
    what.add_argument(
        "--partition-by", metavar="date|COLUMN", help="a directory for each day, or each value"
    )
    what.add_argument("--format", choices=get_args(Format), help="the kind of table (delta)")
    what.add_argument(
        "--table",
        metavar="NAME",
        help="PostgreSQL: NAME or SCHEMA.NAME (the topic's); Iceberg: CATALOGUE.NAMESPACE.NAME in "
        "a catalogue that pyiceberg is told of (a file of SQLite in the directory)",
    )
    what.add_argument(
        "--from",
        dest="start",
        metavar="earliest|latest|TIME",
        help="the first message of a new table (earliest); a time is ISO 8601",
    )


def _add_how(parser: argparse.ArgumentParser) -> None:
    """How a table is filled: may be other each time, and is kept as well."""
    how = parser.add_argument_group("how it is filled; kept as well, and may be changed")
    how.add_argument(
        "--password-file",
        metavar="FILE",
        help="has the password of the database, as PGPASSWORD and PGPASSFILE do",
    )
    how.add_argument(
        "--new-columns",
        choices=get_args(NewColumnsRule),
        help="fields that the schema does not name: leave them out (ignore, the default), add a "
        "column, end with an error, or put the message with the bad rows",
    )
    how.add_argument("--store", metavar="DIR", help="read the log of this store, not the brokers")
    how.add_argument("--broker-name", metavar="NAME", help="for --store: what column broker shows")
    how.add_argument("--group", metavar="NAME", help="as which its lag shows (table-DIR)")
    how.add_argument(
        "--on-gap", choices=("fail", "skip"), help="messages that aged out unread (fail)"
    )
    how.add_argument(
        "--batch-rows",
        type=count,
        metavar="N",
        help=f"the most messages of a commit ({DEFAULT_BATCH_ROWS})",
    )
    how.add_argument(
        "--every", dest="every_ms", type=duration_ms, metavar="TIME", help="between commits (5s)"
    )
    how.add_argument(
        "--compact-every",
        type=_compact_every,
        metavar="N|never",
        help=f"compact small files every so many batches ({DEFAULT_COMPACT_EVERY})",
    )
    how.add_argument(
        "--keep",
        dest="keep_ms",
        type=_keep_ms,
        metavar="TIME|forever",
        help="how long old versions can be read (30d)",
    )


def _compact_every(text: str) -> int:
    return 0 if text == _NEVER else count(text)


def _keep_ms(text: str) -> int:
    return 0 if text == _FOREVER else duration_ms(text)


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    """What the flags ask of a table; what they do not name is None."""
    names = (
        "decode schema schema_file registry subject message time_zone properties partition_by "
        "format table password_file start "
        "new_columns store broker_name group on_gap batch_rows every_ms compact_every keep_ms"
    )
    asked = {name: getattr(options, name) for name in names.split()}
    if options.store is not None and options.namesrv is not None:
        raise ConfigError("--store", "either --store or --namesrv, not both")
    return asked


def _follow(options: argparse.Namespace) -> int:
    from rocketpipe.tables.destination import destination
    from rocketpipe.tables.following import follow

    asked = _asked(options)
    asked["state"] = options.state
    directory, _ = destination(options.to, options.topic, asked)
    is_new = not directory.has_spec
    if options.namesrv is not None or (is_new and options.store is None):
        asked["name_server"] = connecting.name_servers(options.namesrv)
    place = spark_place.spark_place(options)
    printer = Printer.of(options)

    def tell(what: Mapping[str, Any]) -> None:
        if "metrics" in what:
            sys.stderr.write(f"metrics at http://{what['metrics']}/metrics\n")
            return
        if "group" in what:
            taken, group = what["taken"], what["group"]
            sys.stderr.write(f"its lag shows as group {group}: {taken} is taken (see --group)\n")
            return
        if "gap" in what:
            sys.stderr.write(f"{what['gap']} (--on-gap fail would end here)\n")
            return
        if "held_up" in what:
            sys.stderr.write(f"{what['held_up']}\n")
            return
        if "batch" not in what:
            sys.stderr.write(f"started again: {what['restarted']}\n")
            return
        bad = f", {what['bad_rows']:,} bad" if what["bad_rows"] else ""
        text = f"batch {what['batch']}: {what['rows']:,} rows{bad}"
        printer.stream(what, _BATCH_COLUMNS, text)

    with _stopped_by_signals() as (stop, came):
        done = follow(
            options.topic,
            to=options.to,
            once=options.once,
            place=place,
            stop=stop,
            tell=tell,
            metrics_port=options.metrics_port,
            **asked,
        )
    printer.line(f"{options.to}: {done.rows:,} rows and {done.bad_rows:,} bad rows more")
    return 128 + came[0] if came else 0


@contextmanager
def _stopped_by_signals() -> Iterator[tuple[threading.Event, list[int]]]:
    """Have the first Ctrl-C, or SIGTERM, set an event: the batch at hand ends; the second cuts."""
    stop = threading.Event()
    came: list[int] = []

    def heard(number: int, frame: object) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)
        stop.set()

    before = {each: signal.signal(each, heard) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop, came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(options: argparse.Namespace) -> int:
    from rocketpipe.tables.table import FollowedTable

    Printer.of(options).record(_facts(FollowedTable.open(options.table)))
    return 0


def _facts(table: FollowedTable) -> dict[str, Any]:
    spec = table.spec
    rows, bad = table.rows.figures(), table.bad_rows.figures()
    return {
        "topic": spec.topic,
        "from": spec.name_server or spec.store,
        "group": spec.group,
        "format": spec.format,
        "columns": ", ".join(table.schema.names),
        "added_columns": spec.added,
        "partition_by": spec.partition_by,
        "new_columns": spec.new_columns,
        "rows": rows["rows"],
        "files": rows["files"],
        "bytes": rows["bytes"],
        "version": rows["version"],
        "rows_in": str(table.rows),
        "bad_rows": bad["rows"],
        "bad_rows_in": str(table.bad_rows),
        "last_batch": table.rows.last_batch(),
        "written_by": table.directory.writer(),
    }
