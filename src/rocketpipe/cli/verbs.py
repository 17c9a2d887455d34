"""The verbs of a noun: each with its own flags, and a coroutine that carries it out."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from functools import partial

from rocketpipe.cli.parsers import Help, VerbParser, add_words
from rocketpipe.cli.terminal import connecting
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin

#: Carries a verb out; the number is the exit code.
Work = Callable[[Admin, Printer, argparse.Namespace], Awaitable[int]]


class Verbs:
    """Collects the verbs of one noun that ask a cluster, or work on files."""

    def __init__(self, parser: argparse.ArgumentParser, examples: str) -> None:
        """Take the noun's parser, and what to print below its help."""
        parser.epilog = examples
        parser.formatter_class = Help
        self._examples = examples
        self._noun = parser.prog.rpartition(" ")[2]
        self._verbs = add_words(parser, "verb", "VERB", VerbParser)

    def add(self, name: str, summary: str, work: Work) -> argparse.ArgumentParser:
        """Add a verb that is carried out with an open `Admin`; gives its parser for more flags."""
        parser = self._parser(name, summary)
        connecting.add_flags(parser)
        parser.set_defaults(run=partial(_with_admin, work))
        return parser

    def add_local(
        self, name: str, summary: str, work: Callable[[argparse.Namespace], int]
    ) -> argparse.ArgumentParser:
        """Add a verb that asks no server."""
        parser = self._parser(name, summary)
        parser.set_defaults(run=work)
        return parser

    def _parser(self, name: str, summary: str) -> argparse.ArgumentParser:
        mine = [
            line
            for line in self._examples.splitlines()
            if line.strip().startswith(f"rocketpipe {self._noun} {name} ")
            or line.strip() == f"rocketpipe {self._noun} {name}"
        ]
        return self._verbs.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog="\n".join(["examples:", *mine]) if mine else None,
            formatter_class=Help,
        )


def _with_admin(work: Work, options: argparse.Namespace) -> int:
    return connecting.with_admin(options, lambda admin, printer: work(admin, printer, options))
