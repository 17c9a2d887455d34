"""What NameServers keep for others, changed by the original verbs."""

from __future__ import annotations

import argparse

from rocketpipe.cli.mqadmin.flags import Flag, OriginalVerbs
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    namespace = Flag("s", "namespace", "whose value it is", required=True)
    key = Flag("k", "key", "under which it is kept", required=True)
    verbs.add(
        "updateKvConfig",
        "have every NameServer keep a value",
        _put,
        namespace,
        key,
        Flag("v", "value", "the value", required=True),
    )
    verbs.add("deleteKvConfig", "have every NameServer let go of a value", _delete, namespace, key)


async def _put(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.name_servers.put(options.namespace, options.key, options.value)
    printer.line("create or update kv config to namespace success.")
    return 0


async def _delete(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.name_servers.delete(options.namespace, options.key)
    printer.line("delete kv config from namespace success.")
    return 0
