"""``rocketpipe message``: send, find, follow and show messages."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from rocketpipe.cli.nouns import tailing
from rocketpipe.cli.terminal.arguments import delay_level, duration_ms, time_ms
from rocketpipe.cli.terminal.connecting import name_servers
from rocketpipe.cli.terminal.message_rows import COLUMNS, body_text, message_row
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.messages import MAX_FOUND, NoMessage
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.producer.producer import Producer
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError, InvalidName, RocketPipeError
from rocketpipe.model.message import Message
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

_MAX_BODY: Final = 4 << 20

EXAMPLES: Final = """\
examples:
  rocketpipe message send orders 'order 1' --tag paid --key A1
  echo 'order 2' | rocketpipe message send orders -
  rocketpipe message send orders --lines orders.txt --order-by alice
  rocketpipe message send orders 'order 3' --delay 30s
  rocketpipe message query orders --key A1 -o json
  rocketpipe message query orders --id 7F0000010A2B18B4AAC2000000000001
  rocketpipe message tail orders --from earliest --count 10
  rocketpipe message tail orders --tags 'paid || refunded' --follow
  rocketpipe message show orders --queue 0 --offset 42
"""

#: Where an acknowledged message is, by its broker's ``flushDiskType``.
_WRITTEN: Final = {
    "ASYNC_FLUSH": "to memory, then disk",
    "SYNC_FLUSH": "to disk",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    _add_send(verbs.add("send", "send a message, or one for each line of a file", _send))
    _add_query(verbs.add("query", "find messages by key, id or time", _query))
    tailing.add_flags(
        verbs.add("tail", "print messages in the order of time, consuming nothing", tailing.tail)
    )
    show = verbs.add("show", "everything about one message", _show)
    show.add_argument("topic", help="its topic")
    show.add_argument("--id", help="the id its producer gave it, or its offset id")
    show.add_argument("--broker", metavar="NAME", help="its broker, where there are several")
    show.add_argument("--queue", type=int, metavar="N", help="its queue")
    show.add_argument("--offset", type=int, metavar="N", help="its place in the queue")


def _add_send(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", help="where to send it")
    parser.add_argument("body", nargs="?", help="what to send; - takes standard input")
    parser.add_argument("--lines", type=Path, metavar="FILE", help="send each line; - for stdin")
    parser.add_argument("--tag", metavar="TAG", help="its tag")
    parser.add_argument("--key", action="append", default=[], metavar="KEY", help="one of its keys")
    parser.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="one of its properties",
    )
    later = parser.add_mutually_exclusive_group()
    later.add_argument("--delay", type=duration_ms, metavar="30s", help="deliver after so long")
    later.add_argument("--at", metavar="TIME", help="deliver at this moment")
    later.add_argument(
        "--delay-level", type=delay_level, default=0, metavar="1-18", help="deliver later, by level"
    )
    parser.add_argument("--order-by", metavar="KEY", help="same key, same queue, in order")
    parser.add_argument("--timeout", type=duration_ms, default=3000, metavar="3s", help="give up")


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", help="where to look")
    by = parser.add_mutually_exclusive_group(required=True)
    by.add_argument("--key", help="one of the message's keys")
    by.add_argument("--id", help="the id its producer gave it")
    parser.add_argument("--since", metavar="TIME", help="stored at this time or later")
    parser.add_argument("--until", metavar="TIME", help="stored at this time or before")
    parser.add_argument(
        "--limit",
        type=int,
        default=32,
        metavar="N",
        help=f"so many at most (32, up to {MAX_FOUND})",
    )


async def _send(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    properties = dict(_pair(text) for text in options.property)
    written: dict[str, str] = {}
    at_ms = _time("--at", options.at, SystemClock().now_ms()) if options.at else None
    rows = []
    async with Producer(name_servers(options.namesrv)) as producer:
        for body in _bodies(options):
            message = Message(
                options.topic,
                body,
                tags=options.tag,
                keys=options.key,
                properties=properties,
                delay_level=options.delay_level,
                delay_ms=options.delay,
                deliver_at_ms=at_ms,
            )
            result = await producer.send(
                message, order_by=options.order_by, timeout_ms=options.timeout
            )
            broker = result.queue.broker_name
            if broker not in written:
                written[broker] = await _written(admin, broker)
            rows.append(
                {
                    "message_id": result.message_id,
                    "broker": broker,
                    "queue": result.queue.queue_id,
                    "offset": result.queue_offset,
                    "durable": result.durable,
                    "written": written[broker] if result.durable else "not known yet",
                }
            )
    columns = ["message_id", "broker", "queue", "offset"]
    more = ["written"] if printer.form == "table" else ["durable", "written"]
    printer.rows(rows, [*columns, *more])
    return 0


async def _written(admin: Admin, broker: str) -> str:
    """What a broker has done with a message that it acknowledges."""
    try:
        flush = (await admin.brokers.settings(broker)).get("flushDiskType")
    except RocketPipeError:
        flush = None
    return _WRITTEN.get(flush or "", "as its broker is set to")


def _bodies(options: argparse.Namespace) -> list[bytes]:
    if (options.body is None) == (options.lines is None):
        raise ConfigError("BODY", "say what to send: a text, '-' for standard input, or --lines")
    if options.lines is not None:
        if str(options.lines) == "-":
            text = sys.stdin.buffer.read()
        else:
            try:
                text = options.lines.read_bytes()
            except OSError as error:
                reason = f"{options.lines} cannot be read ({error.strerror})"
                raise ConfigError("--lines", reason) from error
        return [line for line in text.splitlines() if line]
    if options.body != "-":
        return [options.body.encode("utf-8", "surrogateescape")]
    return [sys.stdin.buffer.read(_MAX_BODY + 1)]


def _pair(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not (name and mark):
        raise ConfigError("--property", f"{text!r} has no value: write NAME=VALUE")
    return name, value


async def _query(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    now_ms = SystemClock().now_ms()
    if options.id:
        found = await _by_id(admin, options.topic, options.id)
    else:
        spans = {}
        if options.since:
            spans["begin_ms"] = _time("--since", options.since, now_ms)
        if options.until:
            spans["end_ms"] = _time("--until", options.until, now_ms)
        if not 1 <= options.limit <= MAX_FOUND:
            raise ConfigError("--limit", f"is from 1 to {MAX_FOUND}, not {options.limit}")
        found = await admin.messages.by_key(
            options.topic, options.key, limit=options.limit, **spans
        )
    printer.rows((message_row(each, printer) for each in found), COLUMNS, none="no messages")
    if not found:
        sys.stderr.write(
            f"no message of {options.topic!r} with {options.key or options.id!r}: keys are found "
            "exactly as they were sent, and as long as the broker keeps them\n"
        )
        return 1
    return 0


async def _by_id(admin: Admin, topic: str, given: str) -> list[ReceivedMessage]:
    found = await admin.messages.by_unique_key(topic, given)
    if found:
        return found
    try:
        return [await admin.messages.by_id(given)]
    except (InvalidName, NoMessage):
        return []


async def _show(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    if options.id:
        found = await _by_id(admin, options.topic, options.id)
        if not found:
            raise NoMessage(options.id, f"none of topic {options.topic!r} has this id")
        message = found[0]
    elif options.offset is None or options.queue is None:
        raise ConfigError("--id", "say which message: --id, or --queue and --offset")
    else:
        message = await admin.messages.at(await _queue(admin, options), QueueOffset(options.offset))
    printer.record(
        {
            **message_row(message, printer),
            "topic": message.topic,
            "offset_id": message.offset_id,
            "log_offset": message.log_offset,
            "born": moment(message.born_ms),
            "born_host": str(message.born_host),
            "attempts": message.reconsume_times,
            "sys_flag": message.sys_flag,
            "properties": dict(message.properties),
            "body": body_text(message.body),
        }
    )
    return 0


async def _queue(admin: Admin, options: argparse.Namespace) -> MessageQueue:
    ends = await admin.offsets.ends(options.topic)
    found = [
        queue
        for queue in ends
        if queue.queue_id == options.queue and options.broker in (None, queue.broker_name)
    ]
    if not found:
        there = sorted({queue.queue_id for queue in ends})
        which = f"{there[0]} to {there[-1]}" if there else "none"
        raise ConfigError(
            "--queue", f"topic {options.topic!r} has no such queue: its queues are {which}"
        )
    if len(found) > 1:
        brokers = ", ".join(sorted({queue.broker_name for queue in ends}))
        raise ConfigError(
            "--queue",
            f"{len(found)} brokers have queue {options.queue}: add --broker, of {brokers}",
        )
    return found[0]


def _time(flag: str, text: str, now_ms: int) -> int:
    try:
        return time_ms(text, now_ms)
    except ValueError as error:
        raise ConfigError(flag, str(error)) from error
