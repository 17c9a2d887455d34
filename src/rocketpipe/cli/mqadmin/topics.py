"""Topics, asked for by their original verbs."""

from __future__ import annotations

import argparse
import json
from typing import Final

import msgspec

from rocketpipe.cli.mqadmin.flags import (
    BROKER,
    CLUSTER,
    ROUTED_BY,
    TOPIC,
    Flag,
    OriginalVerbs,
    brokers_meant,
    truth,
)
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.topics import DEFAULT_QUEUES
from rocketpipe.errors import ConfigError, NoRoute, RocketPipeError
from rocketpipe.model.topic import Perm, attribute_parts
from rocketpipe.protocol.requests.kv import ORDER_NAMESPACE

_STATUS: Final = {
    "broker": "#Broker Name",
    "queue": "#QID",
    "first": "#Min Offset",
    "end": "#Max Offset",
    "last_stored": "#Last Updated",
}
_ROUTE: Final = {
    "cluster": "#ClusterName",
    "broker": "#BrokerName",
    "addresses": "#BrokerAddrs",
    "read_queues": "#ReadQueue",
    "write_queues": "#WriteQueue",
    "perm": "#Perm",
}
_LIST: Final = {"cluster": "#Cluster Name", "topic": "#Topic", "group": "#Consumer Group"}
_PERM: Final = Flag("p", "perm", "2: written, 4: read, 6: both", takes=int)


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    with_groups = Flag("c", "clusterModel", "with their clusters and groups", switch=True)
    verbs.add("topicList", "list topics", _list, with_groups)
    as_list = Flag("l", "list", "as a table", switch=True)
    verbs.add("topicRoute", "where a topic lives", _route, TOPIC, as_list)
    verbs.add("topicStatus", "what each queue of a topic holds", _status, TOPIC, ROUTED_BY)
    verbs.add("topicClusterList", "the clusters that have a topic", _clusters, TOPIC)
    verbs.add(
        "updateTopic",
        "create a topic, or change it: on one that is there, what is not given stays",
        _update,
        TOPIC,
        Flag("r", "readQueueNums", f"queues that are read ({DEFAULT_QUEUES})", takes=int),
        Flag("w", "writeQueueNums", f"queues that are written ({DEFAULT_QUEUES})", takes=int),
        _PERM,
        Flag("o", "order", "keep its order when a broker is down: true or false", takes=truth),
        Flag("a", "attributes", "+name=value and -name, with commas between"),
        one_of=(BROKER, CLUSTER),
    )
    verbs.add(
        "updateTopicPerm",
        "change what a topic permits",
        _update_perm,
        TOPIC,
        Flag("p", "perm", "2: written, 4: read, 6: both", takes=int, required=True),
        one_of=(BROKER, CLUSTER),
        at_least_one=False,
    )
    verbs.add(
        "deleteTopic",
        "delete a topic with its messages, without asking",
        _delete,
        TOPIC,
        Flag("c", "clusterName", "in this cluster", required=True),
    )


async def _list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    if not options.clusterModel:
        names = await admin.topics.names(internal=True)
        if printer.form != "table":
            printer.rows(({"topic": name} for name in names), ["topic"])
        for name in names:
            printer.line(name)
        return 0
    rows: list[dict[str, str | None]] = []
    for name in await admin.topics.names():
        clusters = await _clusters_of(admin, name)
        groups: list[str | None] = [*await admin.progress.groups_of(name)] or [None]
        rows += [
            {"cluster": cluster, "topic": name, "group": group}
            for cluster in clusters
            for group in groups
        ]
    printer.rows(rows, list(_LIST), list(_LIST.values()))
    return 0


async def _route(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    route = (await admin.topics.show(options.topic)).route
    if not options.list:
        # The original prints JSON here, whatever else it prints.
        Printer("json").record(json.loads(msgspec.json.encode(route)))
        return 0
    rows = []
    for held in route.queues:
        at = route.broker(held.broker_name)
        rows.append(
            {
                "cluster": at.cluster if at else None,
                "broker": held.broker_name,
                "addresses": dict(at.addresses) if at else None,
                "read_queues": held.read_queues,
                "write_queues": held.write_queues,
                "perm": held.perm,
            }
        )
    printer.rows(rows, list(_ROUTE), list(_ROUTE.values()))
    return 0


async def _status(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    stats = await admin.topics.stats(options.topic)
    rows = [
        {
            "broker": each.queue.broker_name,
            "queue": each.queue.queue_id,
            "first": each.least,
            "end": each.end,
            "last_stored": moment(each.last_stored_ms),
        }
        for each in stats.queues
    ]
    printer.rows(rows, list(_STATUS), list(_STATUS.values()))
    return 0


async def _clusters(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    found = await _clusters_of(admin, options.topic)
    if printer.form != "table":
        printer.rows(({"cluster": name} for name in found), ["cluster"])
    for name in found:
        printer.line(name)
    return 0


async def _clusters_of(admin: Admin, topic: str) -> list[str]:
    route = (await admin.topics.show(topic)).route
    return sorted({broker.cluster for broker in route.brokers})


async def _update(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    perm = _perm(options.perm)
    attributes = _attributes(options.attributes)
    ordered: dict[str, int] = {}
    for broker in await brokers_meant(admin, options):
        try:
            await admin.topics.update(
                options.topic,
                read_queues=options.readQueueNums,
                write_queues=options.writeQueueNums,
                perm=perm,
                ordered=options.order,
                attributes=attributes,
                broker=broker.name,
            )
        except NoRoute:
            await _create(admin, options, perm, attributes, broker.name)
        printer.line(f"create topic to {broker.leader} success.")
        settings = (await admin.topics.show(options.topic)).settings[broker.name]
        ordered[broker.name] = settings.write_queues
        printer.line(
            f"TopicConfig [topicName={settings.name}, readQueueNums={settings.read_queues}, "
            f"writeQueueNums={settings.write_queues}, perm={settings.perm}, "
            f"order={str(settings.ordered).lower()}, attributes={dict(settings.attributes)}]"
        )
    if options.order:
        await _fix_order(admin, printer, options.topic, ordered)
    return 0


async def _create(
    admin: Admin,
    options: argparse.Namespace,
    perm: Perm | None,
    attributes: dict[str, str | None],
    broker: str,
) -> None:
    write = options.writeQueueNums or DEFAULT_QUEUES
    read = options.readQueueNums or DEFAULT_QUEUES
    await admin.topics.create(
        options.topic,
        queues=write,
        perm=Perm.READ | Perm.WRITE if perm is None else perm,
        ordered=bool(options.order),
        attributes={name: value for name, value in attributes.items() if value is not None},
        broker=broker,
    )
    if read != write:
        await admin.topics.update(options.topic, read_queues=read, broker=broker)


async def _fix_order(admin: Admin, printer: Printer, topic: str, ordered: dict[str, int]) -> None:
    """Fix the queues of an ordered topic, as clients are told by NameServers."""
    before = await admin.name_servers.get(ORDER_NAMESPACE, topic) or ""
    known: dict[str, int] = {}
    for part in before.split(";"):
        name, _, count = part.partition(":")
        if name and count.isascii() and count.isdigit():
            known[name] = int(count)
    known |= ordered
    await admin.name_servers.set_order(topic, known)
    text = ";".join(f"{name}:{count}" for name, count in sorted(known.items()))
    printer.line(f"set cluster orderConf. isOrder=true, orderConf=[{text}]")


async def _update_perm(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    perm = _perm(options.perm)
    before = (await admin.topics.show(options.topic)).settings
    for broker in await brokers_meant(admin, options):
        if broker.name not in before:
            continue
        await admin.topics.update(options.topic, perm=perm, broker=broker.name)
        was = before[broker.name].perm
        printer.line(f"update topic perm from {was} to {options.perm} in {broker.leader} success.")
    return 0


async def _delete(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    if options.clusterName not in await admin.brokers.clusters():
        raise ConfigError("-c", f"no cluster {options.clusterName!r}")
    await admin.topics.delete(options.topic, cluster=options.clusterName)
    printer.line(f"delete topic [{options.topic}] from cluster [{options.clusterName}] success.")
    try:
        await admin.name_servers.set_order(options.topic, None)
    except RocketPipeError as error:
        printer.line(f"its order is still kept: {error}")
        return 1
    printer.line(f"delete topic [{options.topic}] from NameServer success.")
    return 0


def _perm(number: int | None) -> Perm | None:
    if number is None:
        return None
    if number not in (2, 4, 6):
        raise ConfigError("-p", f"{number}: 2 to be written, 4 to be read, 6 for both")
    return Perm(number)


def _attributes(text: str | None) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in filter(None, (part.strip() for part in attribute_parts(text or ""))):
        name, mark, value = part[1:].partition("=")
        if part[0] == "+" and name and mark:
            found[name] = value
        elif part[0] == "-" and name and not mark:
            found[name] = None
        else:
            raise ConfigError("-a", f"{part!r}: write +name=value, or -name to remove it")
    return found
