"""How words of the command are read: what is missing is helped with, what is wrong is named.

By itself argparse takes the beginning of a flag for the flag, answers a missing word with an error
and lists every word there is for one that is misspelt.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from rocketpipe.model.misnomers import meaning_of, meant_by

#: The word that asks for help wherever one of ours could stand.
HELP: Final = "help"


class Help(argparse.HelpFormatter):
    """Fits paragraphs to the terminal, and leaves what has lines of its own as it is: examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text.strip():
            return "".join(f"{indent}{line}" for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser of one word of the command, with the words that may follow it."""

    #: Words that somebody may expect here, and what to do instead.
    elsewhere: Mapping[str, str] = MappingProxyType({})

    def __init__(self, *args: Any, **settings: Any) -> None:
        # ``--queue`` may be a slip for ``--queues``, and another flag of the next version.
        settings.setdefault("allow_abbrev", False)
        super().__init__(*args, **settings)

    def refuse(self, strange: Sequence[str]) -> None:
        """Say which words were not understood, and which were meant.

        Raises:
            SystemExit: Always, if there is any.
        """
        if strange:
            self.error(f"unrecognized arguments: {' '.join(strange)}{self._hint(strange)}")

    def _hint(self, strange: Sequence[str]) -> str:
        """What was probably meant by the first flag that nobody knows."""
        known = {_name_of(flag): flag for flag in self._option_string_actions}
        for word in strange:
            right = meant_by(_name_of(word), known) if word.startswith("--") else None
            if right is not None:
                return f": did you mean {known[right]}{meaning_of(right)}?"
        return ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        elsewhere = {name.lower(): name for name in self.elsewhere}.get(str(value).lower())
        if elsewhere is not None:
            raise argparse.ArgumentError(
                action, f"{elsewhere} is not here: {self.elsewhere[elsewhere]}"
            )
        known = [str(choice) for choice in action.choices]
        meant = _meant(str(value), known) or f" (choose from {', '.join(known)})"
        raise argparse.ArgumentError(action, f"invalid choice: {str(value)!r}{meant}")


class NounParser(Parser):
    """Refuses what it does not understand with its own usage, not that of the whole command."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the class above says; gives what was read, and nothing that was not.

        Raises:
            SystemExit: If a word is not understood.
        """
        found, strange = super().parse_known_args(args, namespace)
        self.refuse(strange)
        return found, []


class VerbParser(Parser):
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
        self.refuse(strange)
        return found, []


def add_words(
    parser: argparse.ArgumentParser, dest: str, metavar: str, parser_class: type[Parser]
) -> argparse._SubParsersAction[Parser]:
    """Let one of several words follow; without any the help is printed."""

    def helped(options: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(run=helped)
    return parser.add_subparsers(dest=dest, metavar=metavar, parser_class=parser_class)


def without_help(given: Sequence[str]) -> list[str]:
    """``help topic create`` and ``topic help create`` as ``topic create --help``."""
    for place in range(min(2, len(given))):
        if given[place] == HELP:
            return [*given[:place], *given[place + 1 :], "--help"]
        if given[place].startswith("-"):
            break
    return list(given)


def _name_of(flag: str) -> str:
    return flag.partition("=")[0].lstrip("-").replace("-", "_")


def _meant(word: str, known: Collection[str]) -> str:
    folded = {each.lower(): each for each in known}
    near = difflib.get_close_matches(word.lower(), folded, 1)
    return f": did you mean {folded[near[0]]}?" if near else ""
