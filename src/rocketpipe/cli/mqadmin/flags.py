"""RocketMQ's verbs and flags as argparse knows them, and what their values mean.

The original takes ``-b`` as the address of a broker and asks nothing before it destroys. So does
this; a broker's name is taken for its address too. Output may be asked for by ``--output``, for
``-o`` means other things there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from rocketpipe.cli.parsers import NounParser, add_words
from rocketpipe.cli.terminal import connecting
from rocketpipe.cli.terminal.arguments import time_ms
from rocketpipe.cli.terminal.printing import FORMATS, add_wide_flag
from rocketpipe.cli.verbs import Work
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.brokers import BrokerInfo
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError

_MOMENT: Final = "%Y-%m-%d#%H:%M:%S:%f"


def truth(text: str) -> bool:
    """Read ``true`` or ``false``.

    Raises:
        ArgumentTypeError: If it is neither; the original would take it for false.
    """
    known = {"true": True, "false": False}
    if text.strip().lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return known[text.strip().lower()]


def original_time(text: str) -> int:
    """Read a moment as the original writes it: ``now``, milliseconds, ``2024-05-01#12:00:00:000``.

    Raises:
        ArgumentTypeError: If it is none of these, and nothing that our own flags take.
    """
    plain = text.strip()
    digits = plain.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(plain)
    try:
        return round(datetime.strptime(plain, _MOMENT).timestamp() * 1000)  # local time
    except ValueError:
        pass
    try:
        return time_ms(plain, SystemClock().now_ms())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of a verb: ``-t`` and ``--topic``, and what it takes; a switch takes nothing."""

    letter: str
    word: str
    help: str
    required: bool = False
    takes: Any = str
    switch: bool = False

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Teach a parser this flag."""
        names = [f"-{self.letter}", f"--{self.word}"] if self.letter else [f"--{self.word}"]
        if self.switch:
            parser.add_argument(*names, dest=self.word, action="store_true", help=self.help)
            return
        parser.add_argument(
            *names,
            dest=self.word,
            required=self.required,
            type=self.takes,
            metavar="VALUE",
            help=self.help,
        )


TOPIC: Final = Flag("t", "topic", "the topic", required=True)
GROUP: Final = Flag("g", "groupName", "the consumer group", required=True)
BROKER: Final = Flag("b", "brokerAddr", "at the broker with this address, or name")
CLUSTER: Final = Flag("c", "clusterName", "at every broker of this cluster")
#: By which the original finds routes of light queues; here they are found without.
ROUTED_BY: Final = Flag("c", "cluster", "not needed here")


class OriginalVerbs:
    """Collects verbs under their original names."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._verbs = add_words(parser, "verb", "VERB", NounParser)

    def add(
        self,
        name: str,
        summary: str,
        work: Work,
        *flags: Flag,
        one_of: Sequence[Flag] = (),
        at_least_one: bool = True,
    ) -> None:
        """Add a verb with its flags; of ``one_of`` only one is given, and one must be."""
        parser = self._verbs.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        parser.add_argument(
            "-n",
            "--namesrvAddr",
            dest="namesrv",
            metavar="HOST:PORT[;HOST:PORT]",
            help="the NameServers; else as everywhere",
        )
        parser.add_argument("--output", choices=FORMATS, default="table", help="else a table")
        add_wide_flag(parser)
        for flag in flags:
            flag.add_to(parser)
        if one_of:
            group = parser.add_mutually_exclusive_group(required=at_least_one)
            for flag in one_of:
                flag.add_to(group)
        parser.set_defaults(run=partial(_with_admin, work))


async def brokers_meant(admin: Admin, options: argparse.Namespace) -> list[BrokerInfo]:
    """The brokers that ``-b`` or ``-c`` mean; every one if neither is given.

    Raises:
        ConfigError: If there is no broker at that address.
        NoBroker: If there is no such cluster.
    """
    found = await admin.brokers.all(cluster=getattr(options, CLUSTER.word, None))
    wanted = getattr(options, BROKER.word, None)
    if wanted is None:
        return found
    mine = [each for each in found if wanted == each.name or wanted in each.addresses.values()]
    if not mine:
        known = ", ".join(f"{each.name} at {each.leader or 'no leader'}" for each in found[:5])
        raise ConfigError("-b", f"no broker at {wanted!r}; there are {known}")
    return mine


def _with_admin(work: Work, options: argparse.Namespace) -> int:
    return connecting.with_admin(options, lambda admin, printer: work(admin, printer, options))
