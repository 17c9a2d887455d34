"""``rocketpipe cluster``: which clusters there are."""

from __future__ import annotations

import argparse
from typing import Final

from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin

EXAMPLES: Final = """\
examples:
  rocketpipe cluster list
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    Verbs(parser, EXAMPLES).add("list", "list clusters and their brokers", _list)


async def _list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = []
    for name, brokers in sorted((await admin.brokers.clusters()).items()):
        topics = await admin.topics.names(cluster=name)
        rows.append({"cluster": name, "brokers": brokers, "topics": len(topics)})
    printer.rows(rows, ["cluster", "brokers", "topics"])
    return 0
