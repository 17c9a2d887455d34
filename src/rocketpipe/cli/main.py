"""The command ``rocketpipe``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rocketpipe._version import __version__
from rocketpipe.cli import broker, namesrv, serve
from rocketpipe.errors import ConfigError, RocketPipeError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the number is its exit code."""
    parser = argparse.ArgumentParser(
        prog="rocketpipe", description="RocketMQ in Python, with its data pipeline on Spark."
    )
    parser.add_argument("--version", action="version", version=f"rocketpipe {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for noun in (serve, namesrv, broker):
        noun.add_command(commands)
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except ConfigError as error:
        sys.stderr.write(f"rocketpipe {options.command}: {error}\n")
        return 2
    except (RocketPipeError, OSError) as error:
        sys.stderr.write(f"rocketpipe {options.command}: {error}\n")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
