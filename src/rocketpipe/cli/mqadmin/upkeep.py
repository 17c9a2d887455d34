"""What brokers are told to clear away, by the original verbs."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

from rocketpipe.cli.mqadmin.flags import BROKER, CLUSTER, OriginalVerbs, brokers_meant
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin

#: By the original verb, what it does and which call of `BrokerAdmin` does it.
_VERBS: Final = {
    "cleanExpiredCQ": ("remove entries of queues whose messages are gone", "clean_queues"),
    "cleanUnusedTopic": ("remove queues of topics that are not there any more", "clean_topics"),
    "deleteExpiredCommitLog": (
        "remove files of the log past their time",
        "delete_expired",
    ),
}


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    for name, (summary, call) in _VERBS.items():
        verbs.add(
            name,
            f"{summary}; at every broker unless one is named",
            partial(_clear, call),
            one_of=(BROKER, CLUSTER),
            at_least_one=False,
        )


async def _clear(call: str, admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    for broker in await brokers_meant(admin, options):
        await getattr(admin.brokers, call)(broker=broker.name)
    printer.line("success")
    return 0
