"""Asking before something is destroyed."""

from __future__ import annotations

import argparse
import sys

from rocketpipe.errors import RocketPipeError


class NotConfirmed(RocketPipeError):
    """Nobody said yes; nothing was done."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: not confirmed, nothing was done; add --yes to say it beforehand")


def add_flags(parser: argparse.ArgumentParser, *, dry_run: bool = True) -> None:
    """Add ``--yes``, and ``--dry-run`` where what would happen can be shown."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask, do it")
    if dry_run:
        parser.add_argument(
            "--dry-run", action="store_true", help="show what would be done, and do nothing"
        )


def confirm(what: str, options: argparse.Namespace) -> None:
    """Go on only if the user wants it: by ``--yes``, or by typing it on a terminal.

    Raises:
        NotConfirmed: If not, or if there is nobody to ask.
    """
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise NotConfirmed(what)
    sys.stderr.write(f"{what}. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmed(what)
