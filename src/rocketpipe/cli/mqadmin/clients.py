"""Producers at a broker, and the settings of a group, by the original verbs."""

from __future__ import annotations

import argparse
import json
from typing import Final

import msgspec

from rocketpipe.cli.mqadmin.flags import BROKER, GROUP, Flag, OriginalVerbs, brokers_meant
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.client.admin.admin import Admin

_PRODUCERS: Final = {
    "group": "#ProducerGroup",
    "client": "#ClientId",
    "address": "#ClientAddr",
    "language": "#Language",
    "version": "#Version",
    "last_heard": "#LastUpdateTimestamp",
}


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    broker = Flag(BROKER.letter, "broker", BROKER.help, required=True)
    verbs.add("producer", "every producer that is connected to a broker", _producers, broker)
    verbs.add("getConsumerConfig", "the settings of a group at each broker", _settings, GROUP)


async def _producers(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    options.brokerAddr = options.broker
    rows = [
        {
            "group": group,
            "client": each.client_id,
            "address": each.remote_address,
            "language": each.language and each.language.name,
            "version": each.version,
            "last_heard": moment(each.last_update_timestamp or None),
        }
        for broker in await brokers_meant(admin, options)
        for group, found in (await admin.clients.all_producers(broker.name)).items()
        for each in found
    ]
    printer.rows(rows, list(_PRODUCERS), list(_PRODUCERS.values()))
    return 0


async def _settings(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    info = await admin.groups.show(options.groupName)
    rows = [
        {"broker": broker, "key": key, "value": value}
        for broker, settings in sorted(info.settings.items())
        for key, value in json.loads(msgspec.json.encode(settings)).items()
    ]
    printer.rows(rows, ["broker", "key", "value"])
    return 0
