"""Messages, sent and found by their original verbs."""

from __future__ import annotations

import argparse
import codecs
from collections.abc import AsyncIterator
from typing import Any, Final

from rocketpipe.cli.mqadmin.flags import (
    ROUTED_BY,
    TOPIC,
    Flag,
    OriginalVerbs,
    original_time,
    truth,
)
from rocketpipe.cli.terminal.connecting import name_servers
from rocketpipe.cli.terminal.printing import Printer, moment, on_one_line
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.messages import MAX_FOUND, NoMessage
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.producer.producer import Producer
from rocketpipe.errors import ConfigError, InvalidName
from rocketpipe.model.message import Message
from rocketpipe.model.names import TOOLS_CONSUMER_GROUP
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

_FOUND: Final = {"message_id": "#Message ID", "queue": "#QID", "offset": "#Offset"}
_SENT: Final = {
    "broker": "#Broker Name",
    "queue": "#QID",
    "result": "#Send Result",
    "message_id": "#MsgId",
}
#: What the original calls each fact of a message.
_LABELS: Final = {
    "message_id": "MsgId",
    "offset_id": "OffsetID",
    "topic": "Topic",
    "tags": "Tags",
    "keys": "Keys",
    "queue": "Queue ID",
    "offset": "Queue Offset",
    "log_offset": "CommitLog Offset",
    "attempts": "Reconsume Times",
    "born": "Born Timestamp",
    "stored": "Store Timestamp",
    "born_host": "Born Host",
    "stored_host": "Store Host",
    "sys_flag": "System Flag",
    "properties": "Properties",
    "body": "Message Body",
}
_POLL_MS: Final = 100
_CHARSET: Final = "utf-8"


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    message_id = Flag("i", "msgId", "its id", required=True)
    maybe_topic = Flag("t", "topic", "its topic; needed for ids that producers give")
    consumer = Flag("g", "consumerGroup", "have a member of this group handle it now")
    client = Flag("d", "clientId", "which member")
    form = Flag("f", "bodyFormat", "how the body is written (UTF-8)", takes=_charset)
    verbs.add(
        "queryMsgById",
        "a message by its offset id, or by the id its producer gave it",
        _by_id,
        message_id,
        maybe_topic,
        consumer,
        client,
        form,
        ROUTED_BY,
    )
    verbs.add(
        "queryMsgByUniqueKey",
        "a message by the id that its producer gave it",
        _by_unique_key,
        message_id,
        TOPIC,
        consumer,
        client,
        Flag("a", "showAll", "all that have it", switch=True),
        ROUTED_BY,
    )
    verbs.add(
        "queryMsgByKey",
        "messages by one of their keys",
        _by_key,
        TOPIC,
        Flag("k", "msgKey", "the key", required=True),
        Flag("b", "beginTimestamp", "stored then or later", takes=original_time),
        Flag("e", "endTimestamp", "stored then or before", takes=original_time),
        Flag("m", "maxNum", f"so many at most ({MAX_FOUND})", takes=int),
        ROUTED_BY,
    )
    verbs.add(
        "queryMsgByOffset",
        "the message at one place of a queue",
        _by_offset,
        TOPIC,
        Flag("b", "brokerName", "its broker", required=True),
        Flag("i", "queueId", "its queue", required=True, takes=int),
        Flag("o", "offset", "its place there", required=True, takes=int),
        form,
    )
    verbs.add(
        "sendMessage",
        "send a message",
        _send,
        TOPIC,
        Flag("p", "body", "its body", required=True),
        Flag("k", "key", "its keys, with spaces between"),
        Flag("c", "tags", "its tag"),
        Flag("b", "broker", "to this broker, by name"),
        Flag("i", "qid", "to this queue of the broker", takes=int),
        Flag("m", "msgTraceEnable", "true: tell the topic of traces", takes=truth),
    )
    verbs.add(
        "printMsg",
        "print the messages that a topic has",
        _print,
        TOPIC,
        Flag("c", "charsetName", "how bodies are written (UTF-8)", takes=_charset),
        Flag("s", "subExpression", "only these tags: A || B"),
        Flag("b", "beginTimestamp", "stored then or later", takes=original_time),
        Flag("e", "endTimestamp", "stored before", takes=original_time),
        Flag("d", "printBody", "false: without their bodies", takes=truth),
    )


def _charset(text: str) -> str:
    try:
        return codecs.lookup(text.strip()).name
    except LookupError:
        raise argparse.ArgumentTypeError(f"{text!r} is no charset that is known here") from None


async def _by_id(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    try:
        message = await admin.messages.by_id(options.msgId)
    except InvalidName:
        if not options.topic:
            raise
        message = (await _unique(admin, options))[0]
    return await _one(admin, printer, options, message, options.bodyFormat or _CHARSET)


async def _by_unique_key(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    found = await _unique(admin, options)
    if options.showAll:
        return _listed(printer, found)
    return await _one(admin, printer, options, found[0], _CHARSET)


async def _unique(admin: Admin, options: argparse.Namespace) -> list[ReceivedMessage]:
    found = await admin.messages.by_unique_key(options.topic, options.msgId)
    if not found:
        raise NoMessage(options.msgId, f"none of topic {options.topic!r} has this id")
    return found


async def _by_key(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    limit = MAX_FOUND if options.maxNum is None else options.maxNum
    if not 1 <= limit <= MAX_FOUND:
        raise ConfigError("-m", f"is from 1 to {MAX_FOUND}, not {limit}")
    spans = {"begin_ms": options.beginTimestamp, "end_ms": options.endTimestamp}
    given = {name: at for name, at in spans.items() if at is not None}
    found = await admin.messages.by_key(options.topic, options.msgKey, limit=limit, **given)
    return _listed(printer, found)


async def _by_offset(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    queue = MessageQueue(
        topic=options.topic, broker_name=options.brokerName, queue_id=options.queueId
    )
    message = await admin.messages.at(queue, QueueOffset(options.offset))
    _shown(printer, message, options.bodyFormat or _CHARSET)
    return 0


def _listed(printer: Printer, found: list[ReceivedMessage]) -> int:
    rows = [
        {
            "message_id": each.message_id,
            "queue": each.queue.queue_id,
            "offset": each.queue_offset,
        }
        for each in found
    ]
    printer.rows(rows, list(_FOUND), list(_FOUND.values()))
    return 0 if found else 1


async def _one(
    admin: Admin,
    printer: Printer,
    options: argparse.Namespace,
    message: ReceivedMessage,
    charset: str,
) -> int:
    """Show a message; or have a consumer handle it, if one was named."""
    if not options.consumerGroup and not options.clientId:
        _shown(printer, message, charset)
        return 0
    if not (options.consumerGroup and options.clientId):
        raise ConfigError("-g", "a member is meant by -g and -d together")
    result = await admin.clients.consume_directly(
        options.consumerGroup, options.clientId, message.offset_id, topic=message.topic
    )
    outcome = result.outcome and result.outcome.value
    printer.record({"outcome": outcome, "remark": result.remark, "spent_ms": result.spent_ms})
    return 0


def _shown(printer: Printer, message: ReceivedMessage, charset: str) -> None:
    facts: dict[str, Any] = {
        "message_id": message.message_id,
        "offset_id": message.offset_id,
        "topic": message.topic,
        "tags": message.tags,
        "keys": list(message.keys),
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "log_offset": message.log_offset,
        "attempts": message.reconsume_times,
        "born": moment(message.born_ms),
        "stored": moment(message.stored_ms),
        "born_host": str(message.born_host),
        "stored_host": str(message.store_host),
        "sys_flag": message.sys_flag,
        "properties": dict(message.properties),
        "body": message.body.decode(charset, "backslashreplace"),
    }
    if printer.form != "table":
        printer.record(facts)
        return
    for name, label in _LABELS.items():
        printer.line(f"{label + ':':<20} {on_one_line(str(facts[name]))}")


async def _send(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    message = Message(
        options.topic,
        options.body.encode("utf-8", "surrogateescape"),
        tags=options.tags,
        keys=(options.key or "").split(),
    )
    queue = await _target(admin, options)
    trace = bool(options.msgTraceEnable)
    async with Producer(name_servers(options.namesrv), trace=trace) as producer:
        result = await producer.send(message, queue=queue)
    row = {
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "result": "SEND_OK" if result.durable else "STORED_NOT_DURABLE",
        "message_id": result.message_id,
    }
    printer.rows([row], list(_SENT), list(_SENT.values()))
    return 0


async def _target(admin: Admin, options: argparse.Namespace) -> MessageQueue | None:
    if options.broker is None and options.qid is None:
        return None
    if options.broker is None:
        raise ConfigError("-i", "a queue is one of a broker: give -b too")
    route = (await admin.topics.show(options.topic)).route
    for queue in route.writable_queues(options.topic):
        if queue.broker_name == options.broker and options.qid in (None, queue.queue_id):
            return queue
    raise ConfigError("-b", f"topic {options.topic!r} has no such queue to be written")


async def _print(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    charset = options.charsetName or _CHARSET
    async with PullConsumer(
        name_servers(options.namesrv), group=TOOLS_CONSUMER_GROUP, auto_commit=False
    ) as consumer:
        rows = []
        async for message in _messages(admin, consumer, options):
            body = message.body.decode(charset, "backslashreplace")
            row = {
                "message_id": message.message_id,
                "broker": message.queue.broker_name,
                "queue": message.queue.queue_id,
                "offset": message.queue_offset,
                "stored": moment(message.stored_ms),
                "tags": message.tags,
                "keys": list(message.keys),
                "body": body if options.printBody is not False else None,
            }
            if printer.form == "table":
                shown = "NOT PRINT BODY" if row["body"] is None else on_one_line(body)
                place = f"{row['broker']}:{row['queue']}:{row['offset']}"
                printer.line(f"MSGID: {message.message_id} {place} {row['stored']} BODY: {shown}")
            else:
                rows.append(row)
    if printer.form != "table":
        columns = ["message_id", "broker", "queue", "offset", "stored", "tags", "keys", "body"]
        printer.rows(rows, columns)
    return 0


async def _messages(
    admin: Admin, consumer: PullConsumer, options: argparse.Namespace
) -> AsyncIterator[ReceivedMessage]:
    """What a topic has between two moments, as it is now."""
    ends = await admin.offsets.ends(options.topic)
    begin = {queue: int(each.least) for queue, each in ends.items()}
    end = {queue: int(each.end) for queue, each in ends.items()}
    if options.beginTimestamp is not None:
        begin |= await admin.offsets.at_time(options.topic, options.beginTimestamp)
    if options.endTimestamp is not None:
        end |= await admin.offsets.at_time(options.topic, options.endTimestamp)
    wanted = [queue for queue in ends if begin[queue] < end[queue]]
    await consumer.assign(wanted, tags=options.subExpression or "*")
    for queue in wanted:
        await consumer.seek(queue, begin[queue])
    while any(consumer.position(queue) < end[queue] for queue in wanted):
        for message in await consumer.poll(timeout_ms=_POLL_MS):
            if message.queue_offset < end[message.queue]:
                yield message
