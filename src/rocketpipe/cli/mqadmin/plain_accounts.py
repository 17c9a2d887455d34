"""Accounts of RocketMQ 4.9, asked for by their original verbs."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from typing import Final

from rocketpipe.cli.mqadmin.flags import BROKER, CLUSTER, Flag, OriginalVerbs, truth
from rocketpipe.cli.mqadmin.users import servers_meant
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin

_WHERE: Final = (BROKER, CLUSTER)
_KEY: Final = Flag("a", "accessKey", "the account", required=True)
_VERSIONS: Final = {
    "cluster": "#Cluster Name",
    "broker": "#Broker Name",
    "address": "#Broker Addr",
    "version": "#AclConfigVersionNum",
    "updated": "#AclLastUpdateTime",
}


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    verbs.add(
        "updateAclConfig",
        "make or change an account",
        _update,
        _KEY,
        Flag("s", "secretKey", "its secret", required=True),
        Flag("w", "whiteRemoteAddress", "where it may come from"),
        Flag("i", "defaultTopicPerm", "for topics of which nothing is said: DENY, PUB, PUB|SUB …"),
        Flag("u", "defaultGroupPerm", "for groups of which nothing is said"),
        Flag("t", "topicPerms", "topicA=DENY,topicB=PUB|SUB"),
        Flag("g", "groupPerms", "groupA=DENY,groupB=SUB"),
        Flag("m", "admin", "whether it may do everything", takes=truth),
        one_of=_WHERE,
    )
    verbs.add("deleteAclConfig", "remove an account", _delete, _KEY, one_of=_WHERE)
    verbs.add(
        "clusterAclConfigVersion",
        "which version of their accounts brokers have",
        _versions,
        one_of=_WHERE,
    )
    verbs.add(
        "updateGlobalWhiteAddr",
        "let addresses in without a login, which no broker of ours does",
        _white,
        Flag("g", "globalWhiteRemoteAddresses", "10.10.103.*,192.168.0.*", required=True),
        Flag("p", "aclFileFullPath", "the file at the broker"),
        one_of=_WHERE,
    )


async def _brokers(admin: Admin, options: argparse.Namespace) -> dict[str, str]:
    return await servers_meant(admin, options, leaders=options.brokerAddr is None)


async def _update(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    brokers = await _brokers(admin, options)
    await admin.plain_accounts.update(
        brokers,
        options.accessKey,
        options.secretKey,
        admin=bool(options.admin),
        white_address=options.whiteRemoteAddress,
        default_topic=options.defaultTopicPerm,
        default_group=options.defaultGroupPerm,
        topics=(options.topicPerms or "").split(","),
        groups=(options.groupPerms or "").split(","),
    )
    for address in brokers:
        printer.line(f"create or update plain access config to {address} success.")
    return 0


async def _delete(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    brokers = await _brokers(admin, options)
    await admin.plain_accounts.delete(brokers, options.accessKey)
    for address in brokers:
        printer.line(f"delete plain access config account from {address} success.")
    return 0


async def _versions(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = []
    for found in (await admin.plain_accounts.versions(await _brokers(admin, options))).values():
        try:
            version = json.loads(found.version)
            number, stamp = int(version["counter"]), int(version["timestamp"])
        except (ValueError, KeyError, TypeError):
            number, stamp = None, 0
        rows.append(
            {
                "cluster": found.cluster_name,
                "broker": found.broker_name,
                "address": found.broker_addr,
                "version": number,
                "updated": f"{datetime.fromtimestamp(stamp / 1000):%Y-%m-%d %H:%M:%S}"
                if stamp
                else None,
            }
        )
    printer.rows(rows, list(_VERSIONS), list(_VERSIONS.values()))
    return 0


async def _white(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    brokers = await _brokers(admin, options)
    await admin.plain_accounts.set_white_addresses(
        brokers, options.globalWhiteRemoteAddresses, options.aclFileFullPath
    )
    for address in brokers:
        printer.line(f"update global white remote addresses to {address} success.")
    return 0
