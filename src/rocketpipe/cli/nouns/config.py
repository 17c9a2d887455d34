"""``rocketpipe config``: what a server would be told, and whether a file of settings is right."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rocketpipe.broker.config.loading import broker_settings, load_broker
from rocketpipe.cli.serving import settings
from rocketpipe.cli.serving.namesrv import load_namesrv, namesrv_items, namesrv_settings
from rocketpipe.cli.terminal.printing import Printer, add_format_flags
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.findings import counted
from rocketpipe.config.load import Choice, Given
from rocketpipe.errors import ConfigError

EXAMPLES: Final = """\
examples:
  rocketpipe config show --origin
  rocketpipe config show --changed -c broker.conf
  rocketpipe config show --for serve --profile prod --origin
  rocketpipe config show -c site.toml -c broker.conf -o json
  rocketpipe config check broker.conf
  rocketpipe config check --for namesrv namesrv.conf
"""

#: A setting: its key, its value as text, and where it comes from.
Item = tuple[str, str, str]
_STYLES: Final = {"problem": "bad", "warning": "warn", "note": "dim"}
#: Where a server's settings stand in a TOML file that has several.
_TABLES: Final = {
    "broker": ("broker", "store"),
    "namesrv": ("namesrv",),
    "serve": ("broker", "store"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    show = verbs.add_local("show", "print every setting, as a server would be told it", _show)
    show.add_argument(
        "-c",
        "--config",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="with this file; several times, and a .conf counts more than TOML",
    )
    show.add_argument("--key", metavar="NAME", help="only this setting")
    show.add_argument("--origin", action="store_true", help="and where each comes from")
    show.add_argument("--changed", action="store_true", help="only those that are not the default")
    show.add_argument("--profile", choices=["dev", "prod"], help="with this profile")
    _add_server(show)
    add_format_flags(show)
    check = verbs.add_local("check", "say everything that is wrong with a file", _check)
    check.description = (
        "Say everything that is wrong with a file of settings. A problem keeps a server from "
        "starting, or is a name that no setting has: then the exit code is 1. What does not count "
        "as it was written is a warning, and a key of RocketMQ that nothing here depends on a "
        "note: with these alone it is 0."
    )
    check.add_argument("file", type=Path, metavar="FILE", help="RocketMQ's .conf, or TOML")
    _add_server(check)
    add_format_flags(check)


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="server",
        choices=sorted(_TABLES),
        default="broker",
        help="whose settings they are (broker)",
    )


def _show(options: argparse.Namespace) -> int:
    items, choice = _load(options.server, options.config, profile=options.profile, environment=True)
    settings.tell([*choice.warnings(), *choice.notes()])
    columns = ["key", "value", "origin"] if options.origin else ["key", "value"]
    if options.key and options.key not in {key for key, _, _ in items}:
        raise ConfigError("--key", f"a {options.server} has no setting {options.key!r}")
    rows = [
        {"key": key, "value": text, "origin": origin}
        for key, text, origin in sorted(items, key=lambda item: item[0].lower())
        if (not options.changed or origin != "default") and options.key in (None, key)
    ]
    Printer.of(options).rows(rows, columns)
    return 0


def _check(options: argparse.Namespace) -> int:
    problems, items, choice = _tried(options.server, options.file)
    told = {
        "problem": sorted([*problems, *(choice.unknown() if choice else ())], key=_line),
        "warning": sorted(
            (line for line in choice.warnings() if line not in choice.unknown()), key=_line
        )
        if choice
        else [],
        "note": choice.notes() if choice else [],
    }
    given = sum(origin.startswith(str(options.file)) for _, _, origin in items)
    printer = Printer.of(options)
    if printer.form == "table":
        for level, lines in told.items():
            for line in lines:
                printer.line(f"{printer.styled(f'{level:<7}', _STYLES[level])}  {line}")
        counts = ", ".join(counted(len(lines), level) for level, lines in told.items())
        effective = f"{counted(given, 'setting')} take{'s' if given == 1 else ''} effect"
        printer.line(f"{options.file}: {effective}; {counts}")
    else:
        printer.record(
            {
                "file": str(options.file),
                "settings": given,
                **{f"{level}s": lines for level, lines in told.items()},
            }
        )
    return 1 if told["problem"] else 0


def _tried(server: str, file: Path) -> tuple[list[str], list[Item], Choice | None]:
    """Load a file, each time without what was wrong with it, until nothing is."""
    problems: list[str] = []
    try:
        given = _given(server, [file], environment=False)
    except ConfigError as error:
        if not file.is_file():
            raise
        return [str(error)], [], None
    while True:
        try:
            items, choice = _read(server, given)
        except ConfigError as error:
            problems.append(str(error))
            left = [one for one in given if not _blamed(one, error)]
            if len(left) == len(given):  # it cannot be told which of them is wrong
                return problems, [], None
            given = left
        else:
            return problems, items, choice


def _line(told: str) -> int:
    """In which line of the file it is; what concerns no line comes behind those that do."""
    found = re.search(r" line ([0-9]+): ", told)
    return int(found[1]) if found else sys.maxsize


def _blamed(one: Given, error: ConfigError) -> bool:
    if error.where == "settings":
        return error.reason.startswith(f"{one.name}:")
    return one.origin == error.where and error.reason.startswith(f"{one.name}=")


def _load(
    server: str, files: Sequence[Path], *, environment: bool, profile: str | None = None
) -> tuple[list[Item], Choice]:
    return _read(server, _given(server, files, environment=environment, profile=profile))


def _given(
    server: str, files: Sequence[Path], *, environment: bool, profile: str | None = None
) -> list[Given]:
    known = namesrv_settings() if server == "namesrv" else broker_settings()
    given = settings.given_to(
        known,
        files=files,
        tables=_TABLES[server],
        flags=[("profile", profile, "--profile")],
        environment=environment,
        name_servers=server == "broker",
    )
    return [settings.SERVE_DATA, *given] if server == "serve" else given


def _read(server: str, given: Sequence[Given]) -> tuple[list[Item], Choice]:
    usual = settings.USUAL_PROFILE[server]
    if server != "namesrv":
        loaded = load_broker(given, profile=usual)
        return loaded.items(), loaded.choice
    config, choice = load_namesrv(given, profile=usual)
    return namesrv_items(config, choice), choice
