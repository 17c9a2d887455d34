"""How commands are told on which Spark to run."""

from __future__ import annotations

import argparse

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.session import SparkPlace


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what every command understands that runs on Spark."""
    parser.add_argument(
        "--master",
        metavar="URL",
        help="the Spark to run on, as spark-submit takes it; else one of this command's own",
    )
    parser.add_argument("--remote", metavar="sc://HOST:PORT", help="a server of Spark Connect")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark's"
    )
    parser.add_argument(
        "--print-submit",
        action="store_true",
        help="print the spark-submit that would do this on a cluster, and do nothing else",
    )


def spark_place(options: argparse.Namespace) -> SparkPlace:
    """What the flags say.

    Raises:
        ConfigError: If they contradict each other, or one is not of its form.
    """
    conf: dict[str, str] = {}
    for text in options.conf:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError("--conf", f"{text!r} is no KEY=VALUE")
        conf[key] = value
    return SparkPlace(master=options.master, remote=options.remote, conf=conf)
