"""``rocketpipe config``: what a server would be told, and whether a file of settings is right."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from rocketpipe.broker.settings import broker_settings, load_broker
from rocketpipe.cli import settings
from rocketpipe.cli.namesrv import load_namesrv
from rocketpipe.cli.printing import Printer, add_format_flag
from rocketpipe.cli.verbs import Verbs
from rocketpipe.config.load import Choice
from rocketpipe.config.setting import settings_of
from rocketpipe.namesrv.config import NamesrvConfig

EXAMPLES: Final = """\
examples:
  rocketpipe config show --origin
  rocketpipe config show --changed -c broker.conf
  rocketpipe config check broker.conf
  rocketpipe config check --for namesrv namesrv.conf
"""

#: Where a server's settings stand in a TOML file that has several.
_TABLES: Final = {"broker": ("broker", "store"), "namesrv": ("namesrv",)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    show = verbs.add_local("show", "print every setting, as a server would be told it", _show)
    show.add_argument("-c", "--config", type=Path, metavar="FILE", help="with this file")
    show.add_argument("--origin", action="store_true", help="and where each comes from")
    show.add_argument("--changed", action="store_true", help="only those that are not the default")
    _add_server(show)
    add_format_flag(show)
    check = verbs.add_local("check", "say what is wrong with a file; 1 if something is", _check)
    check.add_argument("file", type=Path, metavar="FILE", help="RocketMQ's .conf, or TOML")
    _add_server(check)


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="server",
        choices=sorted(_TABLES),
        default="broker",
        help="whose settings they are (broker)",
    )


def _show(options: argparse.Namespace) -> int:
    items, _ = _load(options.server, options.config, environment=True)
    columns = ["key", "value", "origin"] if options.origin else ["key", "value"]
    rows = [
        {"key": key, "value": text, "origin": origin}
        for key, text, origin in sorted(items, key=lambda item: item[0].lower())
        if not options.changed or origin != "default"
    ]
    Printer(options.output).rows(rows, columns)
    return 0


def _check(options: argparse.Namespace) -> int:
    items, choice = _load(options.server, options.file, environment=False)
    told = choice.warnings()
    for line in told:
        sys.stderr.write(f"{line}\n")
    given = sum(origin != "default" for _, _, origin in items)
    sys.stdout.write(f"{options.file}: {given} settings take effect, {len(told)} warnings\n")
    return 1 if told else 0


def _load(
    server: str, file: Path | None, *, environment: bool
) -> tuple[list[tuple[str, str, str]], Choice]:
    known = broker_settings() if server == "broker" else tuple(settings_of(NamesrvConfig))
    given = settings.given_to(
        known, file=file, tables=_TABLES[server], flags=(), environment=environment
    )
    if server == "broker":
        loaded = load_broker(given)
        return loaded.items(), loaded.choice
    config, choice = load_namesrv(given)
    items = [
        (one.key, one.write(getattr(config, one.attribute)), choice.origin(one.key))
        for one in settings_of(NamesrvConfig)
    ]
    return items, choice
