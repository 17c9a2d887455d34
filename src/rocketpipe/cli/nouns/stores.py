"""``rocketpipe store``: the files of a broker that does not run, or of a copy.

Backups are whole directories; see docs/explanation/store.md for what is in them. Of a directory
that several brokers share, all stores are checked, backed up and restored; other verbs want one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from rocketpipe.broker.config.offline import offline_store
from rocketpipe.broker.replication.following.repair import mend_from_directory, mend_from_leader
from rocketpipe.cli.nouns.several_stores import back_up_all, restore_all, stores_with_files
from rocketpipe.cli.serving import settings
from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.arguments import count
from rocketpipe.cli.terminal.printing import Printer, add_format_flags, moment
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.findings import counted
from rocketpipe.client.credentials import credentials_of
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.tls_settings import TlsSettings
from rocketpipe.store import roster
from rocketpipe.store.errors import StoreLocked
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.state.run_files import locked
from rocketpipe.store.upkeep.backup import back_up, restore
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.maintenance import (
    dump,
    dump_queue,
    export_range,
    rebuild_derived,
    truncate,
)

EXAMPLES: Final = """\
examples:
  rocketpipe store check DIR
  rocketpipe store dump DIR --from 0 --count 10
  rocketpipe store dump DIR --topic orders --queue 0
  rocketpipe store rebuild DIR --yes
  rocketpipe store export DIR records.bin --topic orders
  rocketpipe store backup DIR BACKUP
  rocketpipe store restore BACKUP DIR
  rocketpipe store repair DIR --from 127.0.0.1:10912
  rocketpipe store repair DIR --from OTHER
  rocketpipe store truncate DIR --at 1073741824 --yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    check = verbs.add_local("check", "look for damage in every file; 1 if there is some", _check)
    _add_directory(check)
    add_format_flags(check)

    dumping = verbs.add_local("dump", "describe records, or the entries of a queue", _dump)
    _add_directory(dumping)
    dumping.add_argument(
        "--from", dest="start", type=int, metavar="OFFSET", help="from this record"
    )
    dumping.add_argument("--to", type=int, metavar="OFFSET", help="up to this place of the log")
    dumping.add_argument("--count", type=count, metavar="N", help="so many at most")
    dumping.add_argument("--topic", metavar="NAME", help="only records of this topic")
    dumping.add_argument(
        "--queue", type=int, metavar="N", help="with --topic: the entries of this queue instead"
    )

    rebuild = verbs.add_local("rebuild", "make queues and index anew from the log", _rebuild)
    _add_directory(rebuild)
    confirm.add_flags(rebuild, dry_run=False)

    export = verbs.add_local("export", "write records into one file, as they are", _export)
    _add_directory(export)
    export.add_argument("target", type=Path, metavar="FILE", help="a new file")
    export.add_argument("--from", dest="start", type=int, metavar="OFFSET", help="from this record")
    export.add_argument("--to", type=int, metavar="OFFSET", help="up to this place of the log")
    export.add_argument("--topic", metavar="NAME", help="only records of this topic")

    backup = verbs.add_local("backup", "copy a store that is not in use, and check it", _backup)
    _add_directory(backup)
    backup.add_argument("target", type=Path, metavar="BACKUP", help="a new or empty directory")
    add_format_flags(backup)

    restoring = verbs.add_local("restore", "put a backup back as a store", _restore)
    restoring.add_argument("backup", type=Path, metavar="BACKUP", help="what backup made")
    restoring.add_argument("directory", type=Path, metavar="DIR", help="a new or empty directory")
    add_format_flags(restoring)

    repair = verbs.add_local(
        "repair",
        "mend damage with the log of another replica; what is replaced is kept in quarantine",
        _repair,
    )
    _add_directory(repair)
    repair.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="HOST:PORT|DIR",
        help="where the leader that runs listens for followers (its HA address), or the directory "
        "of another replica that is stopped",
    )
    add_format_flags(repair)

    cutting = verbs.add_local(
        "truncate",
        "cut the end of the log off, for good; what is cut is kept in quarantine",
        _truncate,
    )
    _add_directory(cutting)
    cutting.add_argument(
        "--at",
        type=int,
        required=True,
        metavar="OFFSET",
        help="where a record starts or ends: what lies behind is gone for readers, acknowledged "
        "or not",
    )
    confirm.add_flags(cutting, dry_run=False)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the store's directory")


def _store(options: argparse.Namespace) -> Path:
    root: Path = options.directory
    known = roster.load(root)
    if known is not None:
        alone = [member.name for member in known.brokers if member.directory == roster.WHOLE]
        others = [str(member.root(root)) for member in known.brokers if member.name not in alone]
        if not alone:
            raise ConfigError(
                str(root), f"holds the stores of several brokers: name one, {', '.join(others)}"
            )
        settings.tell([f"{root}: this is {alone[0]} alone; the others are {', '.join(others)}"])
    if not (root / "commitlog").is_dir():
        raise ConfigError(
            str(root), "is no store: it has no directory 'commitlog'; name what --data named"
        )
    return root


def _offset(number: int | None) -> LogOffset | None:
    return None if number is None else LogOffset(number)


@contextmanager
def _free(root: Path) -> Iterator[None]:
    """Keep brokers away if that can be done; if one is there, say what that means for a check."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(Disk(), StoreLayout(root)))
        except StoreLocked:
            sys.stderr.write(
                f"a broker uses {root}: what it is just writing may look torn; stop it to be sure\n"
            )
        except DiskError:
            pass  # a copy that may only be read: nobody writes there
        yield


def _check(options: argparse.Namespace) -> int:
    several = stores_with_files(options.directory)
    if several is None:
        return _checked(options, _store(options))
    # All of them, whatever is found in the first.
    return max([_checked(options, root, name) for name, root in several.items()], default=0)


def _checked(options: argparse.Namespace, root: Path, name: str | None = None) -> int:
    with _free(root):
        report = check_store(Disk(), root)
    printer = Printer.of(options)
    if printer.form == "table":
        for line in report.lines():
            printer.line(line if name is None else f"{name}: {line}")
        return 0 if report.ok else 1
    printer.record(
        {
            **({} if name is None else {"broker": name}),
            "ok": report.ok,
            "log_ok": report.log_ok,
            "first_offset": report.first_offset,
            "end_offset": report.end_offset,
            "records": report.records,
            "record_bytes": report.record_bytes,
            "without_checksum": report.unsealed,
            "queue_entries": report.queue_entries,
            "index_entries": report.index_entries,
            "stopped_in_order": report.clean_stop,
            "left_over": {kind.value: count for kind, count in sorted(report.left_over.items())},
            "counts": {kind.value: count for kind, count in sorted(report.counts.items())},
            "findings": [str(each) for each in report.findings],
        }
    )
    return 0 if report.ok else 1


def _dump(options: argparse.Namespace) -> int:
    root = _store(options)
    if options.queue is not None:
        if not options.topic:
            raise ConfigError("--queue", "says which queue, but not of which --topic")
        lines = dump_queue(Disk(), root, options.topic, options.queue)
    else:
        lines = (
            each.text
            for each in dump(Disk(), root, _offset(options.start), _offset(options.to))
            if each.record is None or options.topic in (None, each.record.topic)
        )
    found = False
    for line in islice(lines, options.count):
        found = True
        sys.stdout.write(f"{line}\n")
    if not found:
        of_topic = f" of topic {options.topic!r}" if options.topic else ""
        sys.stderr.write(f"there is nothing{of_topic} in {root}\n")
    return 0


def _rebuild(options: argparse.Namespace) -> int:
    root = _store(options)
    confirm.confirm(f"make queues and index of {root} anew from its log", options)
    count = rebuild_derived(offline_store(root), Disk(), SystemClock())
    sys.stdout.write(f"{counted(count, 'message')} put into queues and index again\n")
    return 0


def _export(options: argparse.Namespace) -> int:
    count = export_range(
        Disk(),
        _store(options),
        options.target,
        _offset(options.start),
        _offset(options.to),
        wanted=lambda view: options.topic in (None, view.topic),
    )
    sys.stdout.write(f"{counted(count, 'record')} exported to {options.target}\n")
    return 0


def _backup(options: argparse.Namespace) -> int:
    disk, clock, several = Disk(), SystemClock(), stores_with_files(options.directory)
    if several is not None:
        made = back_up_all(disk, options.directory, several, options.target, clock)
    else:
        root = _store(options)
        with locked(disk, StoreLayout(root)):
            made = {"": back_up(disk, root, options.target, clock=clock)}
    for name, each in made.items():
        Printer.of(options).record(
            {
                **({"broker": name} if name else {}),
                "backup": str(options.target / name),
                "created": moment(each.created_ms),
                "first_offset": each.first_offset,
                "end_offset": each.end_offset,
                "files": len(each.files),
                "bytes": sum(file.bytes_used for file in each.files),
            }
        )
    return 0


def _restore(options: argparse.Namespace) -> int:
    disk = Disk()
    if roster.load(options.backup) is not None:
        made = restore_all(disk, options.backup, options.directory)
    else:
        made = {options.directory: restore(disk, options.backup, options.directory)}
    for root, each in made.items():
        # A backup has the log and the tables; what follows from them is made anew.
        rebuild_derived(offline_store(root), disk, SystemClock())
        Printer.of(options).record(
            {
                "store": str(root),
                "of": moment(each.created_ms),
                "end_offset": each.end_offset,
                "files": len(each.files),
            }
        )
    return 0


def _repair(options: argparse.Namespace) -> int:
    root, text = _store(options), options.source
    config, disk, clock = offline_store(root), Disk(), SystemClock()
    if (Path(text) / "commitlog").is_dir():
        with locked(disk, StoreLayout(Path(text))):
            done = mend_from_directory(config, disk, clock, Path(text))
    else:
        try:
            split_address(text)
        except ValueError as error:
            reason = f"{text!r} is neither a store's directory nor HOST:PORT"
            raise ConfigError("--from", reason) from error
        credentials = credentials_of()
        done = mend_from_leader(
            config,
            disk,
            clock,
            text,
            tls=TlsSettings.of(None),
            proves_to=lambda _: credentials,
        )
    printer = Printer.of(options)
    if printer.form == "table":
        for each in done.ranges:
            printer.line(f"mended {each}")
        if done.rebuilt:
            printer.line("queues and index were made anew")
        if not done.ranges:
            printer.line("no damage was found in the log")
        return 0
    printer.record(
        {
            "store": str(root),
            "from": text,
            "rebuilt": done.rebuilt,
            "mended": [
                {
                    "file": str(each.file),
                    "at": each.at,
                    "end": each.end,
                    "reason": each.reason,
                    "kept_in": str(each.kept_in) if each.kept_in is not None else None,
                }
                for each in done.ranges
            ],
        }
    )
    return 0


def _truncate(options: argparse.Namespace) -> int:
    root = _store(options)
    confirm.confirm(f"cut the log of {root} off at {options.at}", options)
    done = truncate(offline_store(root), Disk(), SystemClock(), LogOffset(options.at))
    kept = f"; what was behind is in {done.kept_in}" if done.kept_in is not None else ""
    sys.stdout.write(f"the log ends at {done.end}{kept}\n")
    return 0
