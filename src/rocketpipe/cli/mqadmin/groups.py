"""Consumer groups, who is connected, and how far groups are, by their original verbs."""

from __future__ import annotations

import argparse
from typing import Any, Final

from rocketpipe.cli.mqadmin.flags import (
    BROKER,
    CLUSTER,
    GROUP,
    ROUTED_BY,
    TOPIC,
    Flag,
    OriginalVerbs,
    brokers_meant,
    original_time,
    truth,
)
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.clients import ConnectedClient, ConnectedGroup, NotOnline
from rocketpipe.client.admin.groups import GroupChanges, NoGroup
from rocketpipe.client.admin.progress import Move
from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import PeerVersion

_PROGRESS: Final = {
    "topic": "#Topic",
    "broker": "#Broker Name",
    "queue": "#QID",
    "end": "#Broker Offset",
    "committed": "#Consumer Offset",
    "client": "#Client IP",
    "lag": "#Diff",
    "in_flight": "#Inflight",
    "last_stored": "#LastTime",
}
_GROUPS: Final = {
    "group": "#Group",
    "members": "#Count",
    "version": "#Version",
    "type": "#Type",
    "model": "#Model",
    "tps": "#TPS",
    "lag": "#Diff Total",
}
_CLIENTS: Final = {
    "client": "#ClientId",
    "address": "#ClientAddr",
    "language": "#Language",
    "version": "#Version",
}
_WANTED: Final = {"topic": "#Topic", "expression": "#SubExpression"}
_MOVES: Final = {"broker": "#brokerName", "queue": "#queueId", "to": "#offset", "before": "#before"}
#: What each setting of a group is called in flags.
_SETTINGS: Final = {
    "consume_enable": "consumeEnable",
    "consume_from_min_enable": "consumeFromMinEnable",
    "consume_broadcast_enable": "consumeBroadcastEnable",
    "ordered": "consumeMessageOrderly",
    "retry_queues": "retryQueueNums",
    "broker_id": "brokerId",
    "which_broker_when_consume_slowly": "whichBrokerWhenConsumeSlowly",
    "notify_consumer_ids_changed_enable": "notifyConsumerIdsChanged",
}
#: In the place of a moment: behind all that is there.
_END: Final = -1


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    verbs.add(
        "updateSubGroup",
        "create a group, or change it: on one that is there, what is not given stays",
        _update,
        GROUP,
        Flag("s", "consumeEnable", "whether it may consume", takes=truth),
        Flag("m", "consumeFromMinEnable", "whether it may begin at the oldest", takes=truth),
        Flag("d", "consumeBroadcastEnable", "whether it may broadcast", takes=truth),
        Flag("o", "consumeMessageOrderly", "whether it consumes in order", takes=truth),
        Flag("q", "retryQueueNums", "queues of its retry topic", takes=int),
        Flag("r", "retryMaxTimes", "retries before the dead letters", takes=int),
        Flag("i", "brokerId", "the broker id that it reads from", takes=int),
        Flag("w", "whichBrokerWhenConsumeSlowly", "and when it is slow", takes=int),
        Flag("a", "notifyConsumerIdsChanged", "tell members of each other", takes=truth),
        one_of=(BROKER, CLUSTER),
    )
    verbs.add(
        "deleteSubGroup",
        "delete a group's settings, without asking",
        _delete,
        GROUP,
        Flag("r", "removeOffset", "true: and how far it has come", takes=truth),
        one_of=(BROKER, CLUSTER),
    )
    verbs.add(
        "consumerProgress",
        "how far groups are behind",
        _progress,
        Flag("g", "groupName", "queue by queue for this group; else a line for each"),
        Flag("t", "topicName", "only in this topic"),
        Flag("s", "showClientIP", "true: and who reads each queue", takes=truth),
        ROUTED_BY,
    )
    of_group = Flag("g", "consumerGroup", "the consumer group", required=True)
    verbs.add("consumerConnection", "who consumes for a group", _consumers, of_group)
    verbs.add(
        "producerConnection",
        "who produces for a group",
        _producers,
        Flag("g", "producerGroup", "the producer group", required=True),
        Flag("t", "topic", "not needed here"),
    )
    group = Flag("g", "group", "the consumer group", required=True)
    verbs.add(
        "resetOffsetByTime",
        "have a group go on from a moment",
        _reset,
        group,
        TOPIC,
        Flag(
            "s",
            "timestamp",
            "now, milliseconds since 1970, 2024-05-01#12:00:00:000, or -1 for the end",
            takes=original_time,
            required=True,
        ),
        Flag("f", "force", "false: move no queue forward", takes=truth),
        Flag("b", "brokerAddr", "only at this broker"),
        Flag("q", "queue", "only this queue of the broker", takes=int),
        Flag("o", "offset", "to this offset of the queue", takes=int),
    )
    verbs.add(
        "skipAccumulatedMessage",
        "have a group skip what waits",
        _skip,
        group,
        TOPIC,
        Flag("f", "force", "not needed here", takes=truth),
        ROUTED_BY,
    )
    verbs.add(
        "cloneGroupOffset",
        "have a group go on from where another is",
        _clone,
        Flag("s", "srcGroup", "the group to copy from", required=True),
        Flag("d", "destGroup", "the group that goes on from there", required=True),
        TOPIC,
        Flag("o", "offline", "not needed here", takes=truth),
    )


async def _update(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    changes = GroupChanges()
    for name, word in _SETTINGS.items():
        if getattr(options, word) is not None:
            changes[name] = getattr(options, word)  # type: ignore[literal-required]
    if options.retryMaxTimes is not None:
        changes["max_attempts"] = options.retryMaxTimes + 1
    for broker in await brokers_meant(admin, options):
        try:
            await admin.groups.update(options.groupName, broker=broker.name, **changes)
        except NoGroup:
            await admin.groups.create(options.groupName, broker=broker.name, **changes)
        printer.line(f"create subscription group to {broker.leader} success.")
    return 0


async def _delete(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    for broker in await brokers_meant(admin, options):
        await admin.groups.delete(
            options.groupName, offsets=bool(options.removeOffset), broker=broker.name
        )
        printer.line(
            f"delete subscription group [{options.groupName}] from broker "
            f"[{broker.leader}] success."
        )
    return 0


async def _progress(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    if not options.groupName:
        rows = [await _summary(admin, name) for name in await admin.groups.names()]
        printer.rows(rows, list(_GROUPS), list(_GROUPS.values()))
        return 0
    found = await admin.progress.of_group(options.groupName, options.topicName)
    if not found.queues:
        await admin.groups.show(options.groupName)
    clients: dict[MessageQueue, str] = {}
    if options.showClientIP:
        for topic in sorted({each.queue.topic for each in found.queues}):
            clients |= await _readers(admin, options.groupName, topic)
    rows = [
        {
            "topic": each.queue.topic,
            "broker": each.queue.broker_name,
            "queue": each.queue.queue_id,
            "end": each.end,
            "committed": each.committed,
            "client": clients.get(each.queue),
            "lag": each.lag,
            # What was handed out and is not committed is for clients to know: unknown here.
            "in_flight": None,
            "last_stored": moment(each.last_stored_ms),
        }
        for each in found.queues
    ]
    columns = [name for name in _PROGRESS if name != "client" or options.showClientIP]
    printer.rows(rows, columns, [_PROGRESS[name] for name in columns])
    printer.line("")
    printer.line(f"Consume TPS: {found.rate:.2f}")
    printer.line(f"Consume Diff Total: {found.lag if found.queues else 'unknown'}")
    return 0


async def _summary(admin: Admin, group: str) -> dict[str, Any]:
    row: dict[str, Any] = {"group": group}
    try:
        found = await admin.progress.of_group(group)
        row |= {"tps": found.rate, "lag": found.lag if found.queues else None}
    except RocketPipeError:
        row |= {"tps": None, "lag": None}
    connected: ConnectedGroup | None = None
    try:
        connected = await admin.clients.consumers(group)
    except NotOnline:
        row |= {"members": 0, "version": "OFFLINE"}
    if connected is not None:
        row |= {
            "members": len(connected.members),
            "version": _version(min(each.version for each in connected.members)),
            "type": connected.consume_type and str(connected.consume_type),
            "model": connected.model and str(connected.model),
        }
    return row


async def _readers(admin: Admin, group: str, topic: str) -> dict[MessageQueue, str]:
    try:
        places = await admin.clients.places(group, topic)
    except RocketPipeError:
        return {}
    return {queue: client for client, queues in places.items() for queue in queues}


async def _consumers(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    found = await admin.clients.consumers(options.consumerGroup)
    wanted = [
        {"topic": topic, "expression": each.expression}
        for topic, each in sorted(found.subscriptions.items())
    ]
    members = [_client(each) for each in found.members]
    if printer.form == "json":
        printer.record({"members": members, "subscriptions": wanted})
        return 0
    printer.rows(members, list(_CLIENTS), list(_CLIENTS.values()))
    printer.line("\nBelow is subscription:")
    if printer.form == "table":
        printer.rows(wanted, list(_WANTED), list(_WANTED.values()))
    printer.line(f"\nConsumeType: {found.consume_type or 'unknown'}")
    printer.line(f"MessageModel: {found.model or 'unknown'}")
    return 0


async def _producers(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    found = await admin.clients.producers(options.producerGroup)
    printer.rows(map(_client, found), list(_CLIENTS), list(_CLIENTS.values()))
    return 0


def _client(client: ConnectedClient) -> dict[str, Any]:
    return {
        "client": client.client_id,
        "address": client.address,
        "language": client.language and client.language.name,
        "version": _version(client.version),
    }


def _version(ordinal: int) -> str:
    try:
        return PeerVersion(ordinal).name
    except ValueError:
        return str(ordinal)  # a release between those that are known by name


async def _reset(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    force = True if options.force is None else options.force
    queue = await _queue(admin, options)
    if options.offset is not None:
        if queue is None:
            raise ConfigError("-o", "an offset is one of a queue: give -b and -q too")
        moves = await admin.progress.reset(
            options.group, options.topic, to_offset=options.offset, queue=queue, may_skip=force
        )
    elif options.timestamp == _END:
        moves = await admin.progress.reset(
            options.group, options.topic, to_end=True, queue=queue, may_skip=force
        )
    else:
        moves = await admin.progress.reset(
            options.group,
            options.topic,
            to_ms=options.timestamp,
            queue=queue,
            may_skip=force,
        )
    return _moved(printer, moves)


async def _queue(admin: Admin, options: argparse.Namespace) -> MessageQueue | None:
    if options.brokerAddr is None and options.queue is None:
        return None
    if options.brokerAddr is None or options.queue is None:
        raise ConfigError("-b", "a queue is meant by -b and -q together")
    (broker,) = await brokers_meant(admin, options)
    return MessageQueue(topic=options.topic, broker_name=broker.name, queue_id=options.queue)


async def _skip(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    return _moved(printer, await admin.progress.reset(options.group, options.topic, to_end=True))


async def _clone(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    moves = await admin.progress.clone(options.srcGroup, options.destGroup, topic=options.topic)
    if not moves:
        raise ConfigError(
            "-s", f"group {options.srcGroup!r} has committed nothing in {options.topic!r}"
        )
    printer.line(
        f"clone group offset success. srcGroup[{options.srcGroup}], "
        f"destGroup=[{options.destGroup}], topic[{options.topic}]"
    )
    return _moved(printer, moves)


def _moved(printer: Printer, moves: list[Move]) -> int:
    rows = [
        {
            "broker": move.queue.broker_name,
            "queue": move.queue.queue_id,
            "to": move.after,
            "before": move.before,
        }
        for move in moves
    ]
    printer.rows(rows, list(_MOVES), list(_MOVES.values()))
    return 0
