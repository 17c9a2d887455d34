"""The verbs of a noun: each with its own flags, and a coroutine that carries it out."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from rocketpipe.cli.terminal import connecting
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.model.misnomers import meaning_of, meant_by

#: Carries a verb out; the number is the exit code.
Work = Callable[[Admin, Printer, argparse.Namespace], Awaitable[int]]


class VerbParser(argparse.ArgumentParser):
    """Reads the words of a verb in any order, and says what is wrong in the verb's own words.

    By itself argparse is done with what is not a flag at the first of it, and would not take
    ``message send orders --tag paid BODY``.
    """

    _mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the class above says; gives what was read, and nothing that was not.

        Raises:
            SystemExit: If a word is not understood.
        """
        if self._mixing:  # asked by the call below
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            found, strange = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False
        if strange:
            self.error(f"unrecognized arguments: {' '.join(strange)}{self._hint(strange)}")
        return found, []

    def _hint(self, strange: Sequence[str]) -> str:
        """What was probably meant by the first flag that nobody knows."""
        known = {_name_of(flag): flag for flag in self._option_string_actions}
        for word in strange:
            right = meant_by(_name_of(word), known) if word.startswith("--") else None
            if right is not None:
                return f": use {known[right]}{meaning_of(right)}"
        return ""


class Verbs:
    """Collects the verbs of one noun that ask a cluster, or work on files."""

    def __init__(self, parser: argparse.ArgumentParser, examples: str) -> None:
        """Take the noun's parser, and what to print below its help."""
        parser.epilog = examples
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        self._examples = examples
        self._noun = parser.prog.rpartition(" ")[2]
        self._verbs = parser.add_subparsers(
            dest="verb", required=True, metavar="VERB", parser_class=VerbParser
        )

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
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )


def _name_of(flag: str) -> str:
    return flag.partition("=")[0].lstrip("-").replace("-", "_")


def _with_admin(work: Work, options: argparse.Namespace) -> int:
    return connecting.with_admin(options, lambda admin, printer: work(admin, printer, options))
