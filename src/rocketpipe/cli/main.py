"""The command ``rocketpipe``.

Only the noun that is used is loaded, so that a command is quick to begin.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rocketpipe._version import __version__
from rocketpipe.cli.parsers import NounParser, Parser, add_words, without_help
from rocketpipe.errors import ConfigError, RocketPipeError

#: Exit codes: done; it could not be done; it was said wrongly; interrupted.
DONE: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True)
class Noun:
    """A first word of the command: the module with its ``add_arguments``, and its line of help."""

    name: str
    module: str
    summary: str


NOUNS: Final = (
    Noun("serve", "serving.serve", "run a NameServer and a broker"),
    Noun("namesrv", "serving.namesrv", "run a NameServer"),
    Noun(
        "broker",
        "serving.broker",
        "run a broker; with list, show, config, resign, lead, forget, drain: look after them",
    ),
    Noun("proxy", "serving.proxy", "serve gRPC clients of RocketMQ 5 in front of a cluster"),
    Noun("topic", "nouns.topics", "create, list, show, change and delete topics"),
    Noun("message", "nouns.messages", "send, find, follow and show messages"),
    Noun("group", "nouns.groups", "list and show consumer groups, and how far behind they are"),
    Noun("offsets", "nouns.offsets", "show, reset and clone how far groups are"),
    Noun("dlq", "nouns.dead_letters", "list, show, replay and purge what groups have given up"),
    Noun("delayed", "nouns.waiting", "list and cancel messages that wait for their moment"),
    Noun(
        "transaction", "nouns.waiting", "list transactions that nobody has decided, and decide them"
    ),
    Noun("client", "nouns.clients", "list and show who is connected"),
    Noun(
        "cluster",
        "nouns.clusters",
        "list clusters, show how the copies of brokers stand, run a whole one on this machine",
    ),
    Noun(
        "store", "nouns.stores", "check, dump, rebuild, export, back up and restore a store's files"
    ),
    Noun("table", "nouns.tables", "fill tables with the messages of topics, and show them"),
    Noun("sql", "nouns.sql", "ask topics, groups and dead letters in SQL, on Spark"),
    Noun("job", "nouns.jobs", "run jobs on Spark: archive, audit, delivery, skew, and others"),
    Noun("config", "nouns.config", "show what a server would be told, and check files of settings"),
    Noun(
        "pipeline",
        "nouns.pipelines",
        "make, check, run, show and draw pipelines that are declared in a folder",
    ),
    Noun("user", "access.users", "create, list, rotate, disable and delete users"),
    Noun("acl", "access.acls", "grant, revoke, list, explain and import what users may do"),
    Noun("tls", "tls.commands", "make certificates, and see what a client would meet at a port"),
    Noun("bench", "nouns.bench", "measure how fast a cluster takes messages and hands them out"),
    Noun(
        "doctor", "watching.doctor", "look a cluster over, and say what to do about what is found"
    ),
    Noun("top", "watching.top", "show how a cluster fares, again and again"),
    Noun("console", "serving.console", "show a cluster in a browser"),
    Noun("mqadmin", "mqadmin.command", "do what RocketMQ's mqadmin does, by its verbs and flags"),
    Noun("completion", "nouns.completion", "print what a shell needs to complete this command"),
)


#: What is asked of brokers that run; any other word after ``broker`` is for one that is to.
BROKER_VERBS: Final = ("list", "show", "config", "resign", "lead", "forget", "drain")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the number is its exit code."""
    given = without_help(sys.argv[1:] if arguments is None else arguments)
    command = " ".join(given[:1])
    try:
        options = _understood(given)
        command = " ".join(filter(None, (options.command, getattr(options, "verb", None))))
        code: int = _work_of(options)(options)
        sys.stdout.flush()
    except ConfigError as error:
        return _failed(command, error, MISUSED)
    except BrokenPipeError:
        # Whoever read us has had enough, as `head` does. Nothing more can be written there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (RocketPipeError, OSError) as error:
        return _failed(command, error, FAILED)
    return code


def _understood(given: Sequence[str]) -> argparse.Namespace:
    wanted = next((text for text in given if not text.startswith("-")), None)
    gc.disable()  # what is loaded stays: nothing is gained by looking for garbage in between
    try:
        parser = parser_of([wanted] if wanted else (), running=asks_brokers(given))
    finally:
        gc.enable()
    return parser.parse_args(given, argparse.Namespace(given=given))


def _work_of(options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """What is to be done: what the verb does, unless it is only to be printed."""
    if getattr(options, "print_submit", False):
        from rocketpipe.cli.terminal.spark_submit import print_submit

        return print_submit
    work: Callable[[argparse.Namespace], int] = options.run
    return work


def asks_brokers(given: Sequence[str]) -> bool:
    """Whether ``broker`` is meant as a noun with verbs, and not as the command that runs one."""
    return list(given[:1]) == ["broker"] and "".join(given[1:2]) in BROKER_VERBS


def parser_of(loaded: Iterable[str], *, running: bool = False) -> argparse.ArgumentParser:
    """The parser of the whole command; of nouns that are not ``loaded`` it knows the name.

    ``running`` gives ``broker`` its verbs, for those that run somewhere.
    """
    parser = Parser(
        prog="rocketpipe",
        description="RocketMQ in Python, with its data pipeline on Spark.",
        epilog="'rocketpipe help COMMAND' tells more of one; 'rocketpipe serve' is a good first.",
    )
    parser.add_argument("-V", "--version", action="version", version=f"rocketpipe {__version__}")
    commands = add_words(parser, "command", "COMMAND", NounParser)
    names = set(loaded)
    for noun in NOUNS:
        ours = commands.add_parser(
            noun.name,
            help=noun.summary,
            description=f"{noun.summary[0].upper()}{noun.summary[1:]}.",
        )
        if noun.name in names:
            module = "nouns.brokers" if running and noun.name == "broker" else noun.module
            importlib.import_module(f"rocketpipe.cli.{module}").add_arguments(ours)
    return parser


def _failed(command: str, error: Exception, code: int) -> int:
    sys.stderr.write(f"rocketpipe {command}: {_words(error)}\n")
    hint = getattr(error, "hint", None)
    if hint and hint not in str(error):
        sys.stderr.write(f"  {hint}\n")
    return code


def _words(error: Exception) -> str:
    """What happened, in words; of the system's own errors the number says nothing to anybody."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    said = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        said += ": make room, and run it again"
    return said


if __name__ == "__main__":
    sys.exit(main())
