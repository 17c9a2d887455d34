"""``rocketpipe cluster``: which there are, how copies of brokers stand, and one on this machine."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rocketpipe.cli.cluster import verbs as on_this_machine
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin

EXAMPLES: Final = f"""\
examples:
  rocketpipe cluster list
  rocketpipe cluster status
  rocketpipe cluster status --cluster DefaultCluster -o json
{on_this_machine.EXAMPLES}"""

_STATUS: Final = [
    *("cluster", "broker", "id", "role", "epoch", "in_sync", "lag", "log_end", "address"),
    "follows",
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    verbs.add("list", "list clusters and their brokers", _list)
    status = verbs.add("status", "show who leads and who follows, and how far they are", _status)
    status.add_argument("--cluster", metavar="NAME", help="the brokers of this cluster alone")
    status.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="every process of the cluster that `cluster up` runs there; asks no NameServer",
    )
    asked = status.get_default("run")
    status.set_defaults(
        run=lambda options: (on_this_machine.status if options.data else asked)(options)
    )
    on_this_machine.add_verbs(verbs)


async def _list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = []
    for name, brokers in sorted((await admin.brokers.clusters()).items()):
        topics = await admin.topics.names(cluster=name)
        rows.append({"cluster": name, "brokers": brokers, "topics": len(topics)})
    printer.rows(rows, ["cluster", "brokers", "topics"], none="no clusters: no broker is there")
    return 0


async def _status(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = [asdict(one) for one in await admin.replicas.all(cluster=options.cluster)]
    for row in rows:
        row["problem"] = row["problem"] or row["refused"]
    told = any(row["problem"] for row in rows)
    columns = [*_STATUS, *(["problem"] if told or printer.form != "table" else [])]
    printer.rows(rows, columns)
    return 0
