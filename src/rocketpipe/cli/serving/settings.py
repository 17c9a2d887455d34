"""What the commands that serve are told: flags that they share, files, and the environment."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rocketpipe.auth.config import AuthConfig
from rocketpipe.broker.config.advertise import is_loopback
from rocketpipe.cli.serving import tls_option
from rocketpipe.config.load import Choice, Given, given_in_environment, given_in_file
from rocketpipe.config.setting import Setting
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.tls_settings import TlsConfig

#: The profile of a server that is told none: `serve` is for trying, the others for deployments.
USUAL_PROFILE: Final = {"serve": "dev", "broker": "prod", "namesrv": "prod"}
#: Where `serve` keeps everything if nobody says where.
SERVE_DATA: Final = Given("storePathRootDir", "rocketpipe-data", "default")

log = logging.getLogger(__name__)


def add_shared_flags(parser: argparse.ArgumentParser) -> None:
    """Add what every server understands."""
    parser.add_argument(
        "-c",
        "--config",
        "--configFile",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="settings: RocketMQ's .conf, or TOML if it is named *.toml; several times, and a "
        ".conf counts more than TOML",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow addresses that other machines can reach, though there is no access control",
    )
    tls_option.add_flags(parser)
    parser.add_argument(
        "--audit-log",
        metavar="FILE",
        help="who did what administrative thing, a line each; begun anew when it is long",
    )
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        help="what the log on standard error begins with (info; on a terminal warning)",
    )
    parser.add_argument(
        "--log-format",
        choices=["text", "json"],
        default="text",
        help="log lines as text, or each as a JSON object with its facts as fields (text)",
    )
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print every setting and where it comes from, and end",
    )


def add_profile_flag(parser: argparse.ArgumentParser, server: str, meaning: str) -> None:
    """Add ``--profile``; its help says which one counts without it."""
    parser.add_argument(
        "--profile", choices=["dev", "prod"], help=f"{meaning} ({USUAL_PROFILE[server]})"
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
    files: Sequence[Path],
    tables: Sequence[str],
    flags: Iterable[tuple[str, str | None, str]],
    outside: bool = True,
    environment: bool = True,
    name_servers: bool = True,
) -> list[Given]:
    """Collect what was said: in TOML, then in ``.conf`` files, the environment, and by flags.

    A flag is a key, its text (``None`` when it was not there) and its own name.

    Raises:
        ConfigError: If a file cannot be read.
    """
    given = []
    for file in sorted(files, key=lambda each: each.suffix.lower() != ".toml"):
        given += given_in_file(file, tables, outside=outside)
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
        f"{host} can be reached from other machines, and there is no access control: "
        "use 127.0.0.1, `rocketpipe serve --secure` or authenticationEnabled, or add --insecure "
        "if you mean it",
    )


@contextmanager
def claimed_directory(path: Path, origin: str) -> Iterator[None]:
    """Claim a directory; behind the block it is gone if it was made and nothing is in it.

    Raises: as ``claim_directory`` does.
    """
    made = not path.exists()
    claim_directory(path, origin)
    try:
        yield
    finally:
        if made:
            with suppress(OSError):  # it has something in it, as a rule
                path.rmdir()


def claim_directory(path: Path, origin: str) -> None:
    """Make sure of a directory to keep data in, before anything else is started.

    Raises:
        ConfigError: If it is none, cannot be made, or is not ours to use.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)  # as all that is in it
    except OSError as error:
        reason = "is no directory" if path.exists() else f"cannot be made ({error.strerror})"
        raise ConfigError(origin, f"{path} {reason}: name another with --data") from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(
            origin, f"this user may not use {path}: change its owner, or name another with --data"
        )


def tell(lines: Iterable[str]) -> None:
    """Say the same on standard error, from a command that does not serve and has no log."""
    for line in lines:
        sys.stderr.write(f"{line}\n")


def warn(lines: Iterable[str]) -> None:
    """Say, a line each, what the user should look at."""
    for line in lines:
        log.warning("%s", line)


def tell_of(*choices: Choice) -> None:
    """Have the log say what is not as it was set, and which keys nothing here depends on."""
    for choice in choices:
        warn(choice.warnings())
        for line in choice.notes():
            log.info("%s", line)


def warn_of_replay(hosts: Iterable[str], config: AuthConfig, tls: TlsConfig | None) -> None:
    """Say that signatures alone do not help where others can listen."""
    outside = sorted({host for host in hosts if not is_loopback(host)})
    if outside and config.authenticates and (tls is None or tls.mode != "enforcing"):
        log.warning(
            "requests to %s go without TLS: whoever listens on the way reads them all, and can "
            "send a signed one again; see `rocketpipe tls init`, or serve --secure",
            ", ".join(outside),
        )


def warn_of_no_access_control(config: AuthConfig) -> None:
    """Have the log say it of a server that asks nobody who they are.

    On a terminal the banner says it, with who can reach the ports.
    """
    if not config.authenticates and not sys.stderr.isatty():
        log.warning("no access control: whoever reaches the port may do everything")


def print_items(items: Iterable[tuple[str, str, str]]) -> None:
    """Print settings as a ``.conf`` file, with their origin where it is not the default."""
    lines = []
    for key, text, origin in sorted(items, key=lambda item: item[0].lower()):
        if origin != "default":
            lines.append(f"# {origin}")
        lines.append(f"{key}={conf_value(text)}")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def conf_value(text: str) -> str:
    """A value as it stands in a ``.conf`` file."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return "\\" + escaped if escaped.startswith(" ") else escaped
