"""``rocketpipe table verify``, ``rebuild`` and ``replay``: is a table whole, and if it is not."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.cli.terminal import connecting, spark_place
from rocketpipe.cli.terminal.arguments import count
from rocketpipe.cli.terminal.printing import FORMATS, Printer
from rocketpipe.cli.terminal.spark_progress import progress
from rocketpipe.cli.verbs import Verbs
from rocketpipe.errors import ConfigError

if TYPE_CHECKING:
    from rocketpipe.tables.verifying import VerifyReport

EXAMPLES: Final = """\
  rocketpipe table verify lake/orders
  rocketpipe table verify lake/orders --store old-store --format json
  rocketpipe table rebuild lake/orders
  rocketpipe table replay lake/orders --to table --schema 'city STRING, cents INT, tip INT'
  rocketpipe table replay lake/orders --to topic --error 'does not fit'
"""

_LINES: Final = 20
#: What needs no schema beside that of SQL.
_DECODES: Final = ("none", "text", "json")
_FINDING_COLUMNS: Final = ("kind", "broker", "queue_id", "first", "last", "messages")


def add_verbs(verbs: Verbs) -> None:
    """Teach the noun its verbs that compare and mend."""
    verify = verbs.add_local(
        "verify",
        "compare a table with its topic, message by message; exit 1 if it differs",
        _verify,
    )
    verify.add_argument("table", metavar="DIR", help="the directory of the table")
    verify.add_argument(
        "--most", type=count, default=_LINES, metavar="N", help=f"print no more findings ({_LINES})"
    )
    verify.add_argument(
        "--format",
        dest="output",
        choices=FORMATS,
        default=argparse.SUPPRESS,
        help="the same as --output",
    )
    _add_where(verify)

    rebuild = verbs.add_local(
        "rebuild", "make a table anew from its topic, and put it in the place of the old", _rebuild
    )
    rebuild.add_argument("table", metavar="DIR", help="the directory of the table")
    rebuild.add_argument(
        "--without-older",
        action="store_true",
        help="leave out rows whose messages the topic has no more, which else ends it",
    )
    rebuild.add_argument("--schema", metavar="COLUMNS", help="other fields of JSON bodies")
    rebuild.add_argument("--decode", choices=(*_DECODES, "avro", "protobuf"), help="other bodies")
    rebuild.add_argument("--schema-file", metavar="FILE", help="another schema of Avro or Protobuf")
    rebuild.add_argument("--registry", metavar="URL", help="the latest schema of this registry")
    rebuild.add_argument("--subject", metavar="NAME", help="of the registry (TOPIC-value)")
    rebuild.add_argument("--message", metavar="NAME", help="which Protobuf message bodies are")
    rebuild.add_argument("--partition-by", metavar="date|COLUMN", help="other directories")
    _add_where(rebuild)

    replay = verbs.add_local(
        "replay", "decode bad rows again, and put what is good now into the table or topic", _replay
    )
    replay.add_argument("table", metavar="DIR", help="the directory of the table")
    replay.add_argument(
        "--to", required=True, choices=("table", "topic"), help="where what is good now goes"
    )
    replay.add_argument("--error", metavar="REGEX", help="only those in whose error this is found")
    replay.add_argument(
        "--schema", metavar="COLUMNS", help="the columns of the table, and more if you like"
    )
    replay.add_argument(
        "--decode", choices=_DECODES, help="what these bodies hold, if not what others do"
    )
    connecting.add_flags(replay)
    spark_place.add_flags(replay)


def _add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store", metavar="DIR", help="read the log of this store, not the brokers"
    )
    parser.add_argument(
        "--broker-name", metavar="NAME", help="for --store: what column broker shows"
    )
    connecting.add_flags(parser)
    spark_place.add_flags(parser)


def _where(options: argparse.Namespace) -> dict[str, Any]:
    if options.store is not None and options.namesrv is not None:
        raise ConfigError("--store", "either --store or --namesrv, not both")
    return {
        "store": options.store,
        "broker_name": options.broker_name,
        "name_server": None
        if options.namesrv is None
        else connecting.name_servers(options.namesrv),
        "spark_place": spark_place.spark_place(options),
    }


def _verify(options: argparse.Namespace) -> int:
    from rocketpipe.tables.verifying import verify

    report = verify(options.table, watch=progress, **_where(options))
    _print(Printer.of(options), options.table, report, options.most)
    return 0 if report.is_equal else 1


def _print(printer: Printer, name: str, report: VerifyReport, most: int) -> None:
    findings = [
        {
            "kind": each.kind,
            "broker": each.broker,
            "queue_id": each.queue_id,
            "first": each.first,
            "last": each.last,
            "messages": each.number,
        }
        for each in report.findings[:most]
    ]
    if printer.form == "json":
        printer.record(
            {
                "equal": report.is_equal,
                "topic": report.topic,
                "rows": report.rows,
                "bad_rows": report.bad_rows,
                "messages": report.messages,
                "older": report.older,
                "unknown": report.unknown,
                "behind": report.behind,
                "skipped": report.skipped,
                "wrong": dict(report.wrong),
                "findings": findings,
                "lost_files": list(report.lost_files),
            }
        )
        return
    if findings or printer.form == "csv":
        printer.rows(findings, _FINDING_COLUMNS)
    for each in report.lost_files:
        printer.line(f"not readable: {each}")
    named = sum(each.number for each in report.findings[:most])
    if sum(report.wrong.values()) > named:
        printer.line(f"… and {sum(report.wrong.values()) - named:,} messages more")
    printer.line(f"{name}: {_summary(report)}")


def _summary(report: VerifyReport) -> str:
    compared = (
        f"{report.rows:,} rows and {report.bad_rows:,} bad rows, {report.messages:,} messages"
    )
    said = [f"equal to topic {report.topic}: {compared}"]
    if not report.is_equal:
        wrong = ", ".join(f"{number:,} {kind}" for kind, number in sorted(report.wrong.items()))
        said = [f"differs from topic {report.topic}: {wrong or 'files are lost'} ({compared})"]
    if report.older:
        said.append(f"{report.older:,} older than the topic, each there once")
    if report.unknown:
        said.append(f"{report.unknown:,} older than the topic, not looked at")
    if report.skipped:
        said.append(f"{report.skipped:,} left out, as they had aged out before they were followed")
    if report.behind:
        said.append(f"{report.behind:,} not followed yet")
    return "; ".join(said)


def _rebuild(options: argparse.Namespace) -> int:
    from rocketpipe.tables.rebuilding import rebuild

    done = rebuild(
        options.table,
        without_older=options.without_older,
        schema=options.schema,
        decode=options.decode,
        schema_file=options.schema_file,
        registry=options.registry,
        subject=options.subject,
        message=options.message,
        partition_by=options.partition_by,
        tell=_teller(),
        **_where(options),
    )
    printer = Printer.of(options)
    facts = {"rows": done.rows, "bad_rows": done.bad_rows, "resumed": done.resumed}
    again = ", gone on with after it was cut off" if done.resumed else ""
    _tell_done(
        printer,
        facts,
        f"{options.table}: made anew and verified{again}: {done.rows:,} rows and "
        f"{done.bad_rows:,} bad rows",
    )
    return 0


def _teller() -> Callable[[Mapping[str, Any]], None] | None:
    """Progress for whoever looks on; nobody else gets it."""
    if not sys.stderr.isatty():
        return None

    def tell(what: Mapping[str, Any]) -> None:
        said = f"batch {what['batch']}: {what['rows']:,} rows" if "batch" in what else str(what)
        sys.stderr.write(f"{said}\n")

    return tell


def _replay(options: argparse.Namespace) -> int:
    from rocketpipe.tables.replaying import replay

    done = replay(
        options.table,
        to=options.to,
        error=options.error,
        schema=options.schema,
        decode=options.decode,
        name_server=None if options.namesrv is None else connecting.name_servers(options.namesrv),
        spark_place=spark_place.spark_place(options),
        watch=progress,
    )
    facts = {
        "replayed": done.replayed,
        "failed": done.failed,
        "left": done.left,
        "resumed": done.resumed,
    }
    before = f"; {done.resumed:,} of a replay that was cut off" if done.resumed else ""
    _tell_done(
        Printer.of(options),
        facts,
        f"{options.table}: {done.replayed:,} bad rows replayed to the {options.to}, "
        f"{done.failed:,} bad again, {done.left:,} not chosen{before}",
    )
    return 0


def _tell_done(printer: Printer, facts: Mapping[str, Any], text: str) -> None:
    if printer.form == "table":
        printer.line(text)
    else:
        printer.record(facts)
