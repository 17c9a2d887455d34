"""``rocketpipe bench``: how fast a cluster takes messages, and hands them out."""

from __future__ import annotations

import argparse
import random
import sys
from typing import Final

from rocketpipe.bench.consume import consume
from rocketpipe.bench.produce import ProduceLoad, produce
from rocketpipe.bench.report import Report
from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.arguments import count
from rocketpipe.cli.terminal.connecting import name_servers
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.cli.terminal.progress import Progress
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.producer.producer import Producer
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.errors import ConfigError, NoRoute
from rocketpipe.model.names import TOOLS_CONSUMER_GROUP

EXAMPLES: Final = """\
examples:
  rocketpipe bench produce load --messages 100000 --size 1024 --window 64
  rocketpipe bench produce load --batch --queues 8 --yes -o json
  rocketpipe bench consume load
  rocketpipe bench consume load --messages 50000
"""

_QUEUES: Final = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    sending = verbs.add("produce", "send messages as fast as it goes", _produce)
    sending.add_argument("topic", help="where to send them; created only if you agree")
    _add_count(sending, "--messages", 10_000, "so many messages")
    _add_count(sending, "--size", 1024, "bytes of each body")
    _add_count(sending, "--window", 64, "sends under way at a time")
    sending.add_argument("--batch", action="store_true", help="send many messages in one")
    _add_count(sending, "--queues", _QUEUES, "of the topic, if it has to be created")
    confirm.add_flags(sending, dry_run=False)
    reading = verbs.add("consume", "read what a topic has, consuming nothing", _consume)
    reading.add_argument("topic", help="what to read")
    reading.add_argument(
        "--messages", type=count, metavar="N", help="so many at most (all that are there)"
    )


def _add_count(parser: argparse.ArgumentParser, flag: str, usual: int, help_text: str) -> None:
    parser.add_argument(flag, type=count, default=usual, metavar="N", help=f"{help_text} ({usual})")


async def _produce(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    try:
        load = ProduceLoad(options.topic, options.messages, options.size, options.window)
    except ValueError as error:
        raise ConfigError("bench produce", str(error)) from error
    try:
        await admin.topics.show(load.topic)
    except NoRoute:
        what = f"topic {load.topic!r} is not there: create it with {options.queues} queues"
        confirm.confirm(what, options)
        await admin.topics.create(load.topic, queues=options.queues)
    batching = Batching() if options.batch else None
    with Progress("sending", load.messages) as progress:
        async with Producer(name_servers(options.namesrv), batching=batching) as producer:
            chance = random.Random()  # noqa: S311 - bodies, not secrets
            report = await produce(producer, load, chance=chance, advance=progress.advance)
    return _tell(printer, report, "send", wanted=load.messages)


async def _consume(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    ends = await admin.offsets.ends(options.topic)
    there = sum(each.end - each.least for each in ends.values())
    wanted = there if options.messages is None else min(there, options.messages)
    with Progress("reading", wanted) as progress:
        async with PullConsumer(
            name_servers(options.namesrv), group=TOOLS_CONSUMER_GROUP, auto_commit=False
        ) as consumer:
            report = await consume(
                consumer, ends, messages=options.messages, advance=progress.advance
            )
    return _tell(printer, report, "poll", wanted=wanted)


def _tell(printer: Printer, report: Report, timed: str, *, wanted: int) -> int:
    facts = report.facts(timed)
    if printer.form == "table":
        # Times are often below a tenth of a millisecond, where tables else end.
        facts = {name: _fine(value) for name, value in facts.items()}
    printer.record(facts)
    for kind, example in report.errors.examples.items():
        sys.stderr.write(f"{kind}: {example}\n")
    if report.messages < wanted and not report.errors.count:
        sys.stderr.write(f"only {report.messages} of {wanted} messages came\n")
    return 0 if report.messages >= wanted else 1


def _fine(value: object) -> object:
    if not isinstance(value, float):
        return value
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3f}".rstrip("0").rstrip(".")
