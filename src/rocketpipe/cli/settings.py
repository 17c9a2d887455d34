"""What the commands that serve are told: flags that they share, files, and the environment."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rocketpipe.config.load import Given, given_in_environment, given_in_file
from rocketpipe.config.setting import Setting
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.caller import split_address

log = logging.getLogger(__name__)


def add_shared_flags(parser: argparse.ArgumentParser) -> None:
    """Add what every server understands."""
    parser.add_argument(
        "-c",
        "--config",
        "--configFile",
        type=Path,
        metavar="FILE",
        help="settings: RocketMQ's .conf, or TOML if it is named *.toml",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow addresses that other machines can reach, though there is no access control",
    )
    parser.add_argument(
        "--http",
        type=address,
        metavar="HOST:PORT",
        help="answer /healthz, /readyz, /metrics and /version there; port 0 takes a free one",
    )
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="what the log on standard error begins with (info)",
    )
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print every setting and where it comes from, and end",
    )


def address(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT`` for a flag."""
    try:
        return split_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def port(text: str) -> str:
    """Check a port number for a flag; it stays text, as all that is given."""
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535 is expected")
    return text


def given_to(
    settings: Sequence[Setting],
    *,
    file: Path | None,
    tables: Sequence[str],
    flags: Iterable[tuple[str, str | None, str]],
    outside: bool = True,
    environment: bool = True,
    name_servers: bool = True,
) -> list[Given]:
    """Collect what was said: in the file, then in the environment, then by flags.

    A flag is a key, its text (``None`` when it was not there) and its own name.

    Raises:
        ConfigError: If the file cannot be read.
    """
    given = given_in_file(file, tables, outside=outside) if file else []
    if environment:
        given += given_in_environment(os.environ, settings, name_servers=name_servers)
    given += [Given(key, text, flag) for key, text, flag in flags if text is not None]
    return given


def refuse_strangers(host: str, origin: str, *, insecure: bool) -> None:
    """Let a server listen where others reach it only if the user insists.

    Raises:
        ConfigError: If they can, and the user does not.
    """
    if insecure or is_loopback(host):
        return
    raise ConfigError(
        origin,
        f"{host} can be reached from other machines, and there is no access control yet: "
        "use 127.0.0.1, or add --insecure if you mean it",
    )


def claim_directory(path: Path, origin: str) -> None:
    """Make sure of a directory to keep data in, before anything else is started.

    Raises:
        ConfigError: If it is none, cannot be made, or is not ours to use.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "is no directory" if path.exists() else f"cannot be made ({error.strerror})"
        raise ConfigError(origin, f"{path} {reason}: name another with --data") from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(
            origin, f"this user may not use {path}: change its owner, or name another with --data"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def warn(lines: Iterable[str]) -> None:
    """Say, a line each, what the user should look at."""
    for line in lines:
        log.warning("%s", line)


def warn_of_no_access_control() -> None:
    """Say what every start has to say until there is access control."""
    log.warning("no access control: whoever reaches the port may do everything")


def print_items(items: Iterable[tuple[str, str, str]]) -> None:
    """Print settings as a ``.conf`` file, with their origin where it is not the default."""
    lines = []
    for key, text, origin in sorted(items, key=lambda item: item[0].lower()):
        if origin != "default":
            lines.append(f"# {origin}")
        lines.append(f"{key}={_conf_value(text)}")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _conf_value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return "\\" + escaped if escaped.startswith(" ") else escaped
