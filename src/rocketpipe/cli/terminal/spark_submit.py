r"""The spark-submit that does what a command would do.

    spark-submit \\
        --master spark://spark-1:7077 \\
        /…/rocketpipe/cli/submitted.py table follow orders --to /lake/orders

Flags about Spark become those of spark-submit, all others stay as they were typed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rocketpipe.cli import submitted
from rocketpipe.client.name_servers import of_environment
from rocketpipe.errors import ConfigError

FLAG: Final = "--print-submit"
_WITH_VALUE: Final = ("--master", "--conf")
#: What Spark itself never shows of a setting, by its name.
_SECRET: Final = re.compile(r"secret|password|token|access\.?key|credential", re.I)


def submit_command(
    given: Sequence[str],
    options: argparse.Namespace,
    environment: Mapping[str, str] = os.environ,
) -> str:
    """The line for a shell; ``given`` is the command as it was typed.

    Raises:
        ConfigError: If it cannot be submitted, or would show a secret.
    """
    if options.remote is not None:
        raise ConfigError(
            "--remote", f"a server of Spark Connect is not submitted to: leave out {FLAG}"
        )
    settings = ["--master", options.master] if options.master else []
    for text in options.conf:
        name = text.partition("=")[0]
        if _SECRET.search(name):
            raise ConfigError(
                "--conf",
                f"{name} is a secret, and whoever lists processes would see it: put it into "
                "spark-defaults.conf, or give a file",
            )
        settings += ["--conf", text]
    words = without_spark(given)
    servers = of_environment(environment)
    if servers and options.namesrv is None and getattr(options, "store", None) is None:
        words += ["--namesrv", servers[1]]  # the driver may be on a machine that is not told it
    lines = [
        "spark-submit",
        *(" ".join(map(shlex.quote, pair)) for pair in zip(*[iter(settings)] * 2, strict=True)),
        " ".join(map(shlex.quote, [str(Path(submitted.__file__).resolve()), *words])),
    ]
    return " \\\n    ".join(lines)


def without_spark(given: Sequence[str]) -> list[str]:
    """A command without its flags about Spark."""
    kept: list[str] = []
    words = iter(given)
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word != FLAG and word.partition("=")[0] not in _WITH_VALUE:
            kept.append(word)
    return kept


def print_submit(options: argparse.Namespace) -> int:
    """Print the line, and do nothing else."""
    sys.stdout.write(f"{submit_command(options.given, options)}\n")
    return 0
