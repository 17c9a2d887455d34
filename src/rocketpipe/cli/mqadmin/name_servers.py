"""What NameServers keep for others, changed by the original verbs."""

from __future__ import annotations

import argparse

from rocketpipe.cli.mqadmin.flags import Flag, OriginalVerbs
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.errors import ConfigError
from rocketpipe.protocol.requests.kv import ORDER_NAMESPACE


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
    verbs.add("getNamesrvConfig", "the settings of every NameServer", _settings)
    verbs.add(
        "updateNamesrvConfig",
        "change a setting of every NameServer",
        _change,
        Flag("k", "key", "the setting", required=True),
        Flag("v", "value", "what it is set to", required=True),
    )
    verbs.add(
        "updateOrderConf",
        "the queues of a topic that is ordered across brokers",
        _order,
        Flag("t", "topic", "the topic", required=True),
        Flag("m", "method", "get, put or delete", required=True, takes=_method),
        Flag("v", "orderConf", "with put: the queues by broker, as broker-a:4;broker-b:4"),
    )


def _method(text: str) -> str:
    if text not in ("get", "put", "delete"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither get, put nor delete")
    return text


async def _put(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.name_servers.put(options.namespace, options.key, options.value)
    printer.line("create or update kv config to namespace success.")
    return 0


async def _delete(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.name_servers.delete(options.namespace, options.key)
    printer.line("delete kv config from namespace success.")
    return 0


async def _settings(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = [
        {"name_server": address, "key": key, "value": value}
        for address, settings in (await admin.name_servers.settings()).items()
        for key, value in sorted(settings.items())
    ]
    printer.rows(rows, ["name_server", "key", "value"])
    return 0


async def _change(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    await admin.name_servers.change({options.key: options.value})
    printer.line("update name server config success!")
    return 0


async def _order(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    names = admin.name_servers
    if options.method == "put":
        if not options.orderConf:
            raise ConfigError("-v", "say which queues, as broker-a:4;broker-b:4")
        await names.put(ORDER_NAMESPACE, options.topic, options.orderConf)
    elif options.method == "delete":
        await names.set_order(options.topic, None)
    else:
        found = await names.get(ORDER_NAMESPACE, options.topic)
        printer.record({"topic": options.topic, "order": found})
        return 0
    printer.line(f"{options.method} order conf success. topic={options.topic}")
    return 0
