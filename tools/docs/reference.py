"""Prints the reference pages from the code that they tell of.

python -m tools.docs.reference docs/reference [cli errors metrics api api/producing …]
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import pkgutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import rocketpipe
import rocketpipe.jobs
import rocketpipe.pipeline
import rocketpipe.strategies
import rocketpipe.tables
import rocketpipe.testing
from rocketpipe import errors
from rocketpipe.auth.measured import measured as measured_of_users
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.metrics.families import families
from rocketpipe.broker.metrics.replicas import replication
from rocketpipe.broker.replication.status import FollowerStatus, FollowingStatus, alone
from rocketpipe.cli.main import NOUNS, parser_of
from rocketpipe.cli.serving.fleet.health import processes
from rocketpipe.metrics import Family
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.pipeline.figures import Batch, Figures
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.remoting import tls
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.state.positions import Positions
from tools.docs import api_pages
from tools.docs.api_entry import cell, first_line

MARK: Final = "<!-- Printed by tools/docs/reference.py: change it there, or what it reads. -->\n"

CLI: Final = """\
# The command

`rocketpipe NOUN VERB`, and `--help` after any of it. A command that asks a cluster finds it by
`-n HOST:PORT`, else by `ROCKETPIPE_NAMESRV` or `NAMESRV_ADDR`, else at 127.0.0.1:9876. Answers go
to standard output, as a table or, with `-o json` and `-o csv`, for programs; everything else goes
to standard error.

| exit code | means |
|---|---|
| 0 | done |
| 1 | it could not be done, or what was checked is not in order |
| 2 | it was said wrongly: a flag, a file, a value |
| 130 | interrupted |
"""

ERRORS: Final = """\
# Errors

Everything that is raised on purpose is a `rocketpipe.RocketPipeError`; the classes are in
`rocketpipe.errors`. `retryable` says whether the same again may succeed, `hint` what to do next.

"""

PARTS: Final = """
## Errors of single parts

These stand beside what raises them.

| error | in | is a | |
|---|---|---|---|
"""

CODES: Final = """
## Codes of answers

What a server answers other than SUCCESS reaches a caller as `RequestRejected`, with the number as
`code` and the server's own words as `remark`. The names are RocketMQ's. Those of controllers and
of access control are known by name only.

| code | name | again? | what to do next |
|---|---|---|---|
"""

METRICS: Final = """\
# Metrics

`rocketpipe serve --http 127.0.0.1:8080` (`broker` too) answers `/metrics` in Prometheus' text
format. Names that begin with `rocketmq_` are RocketMQ's own. A series is there while the topic or
the group that it tells of is; what cannot be found out is left out, never told as zero. Of one name
at most 10,000 series are told, and `rocketpipe_series_left_out` says how many were not. They are
collected a few at a time, so that nobody waits for a scrape, and told again to whoever asks within
two seconds: 10,000 topics with 10,000 groups are 30 MB of text, two thirds of a second of CPU, and
no piece of it longer than some milliseconds (`python -m benchmarks.metrics scrape`). Counting costs
half a microsecond for all sends that are stored together.

Lag is told for every topic that a group has a place in, or subscribes to, whoever the group is:
push, pull and simple consumers, and Spark's jobs; by topic under RocketMQ's names, by queue under
ours. Where it has no place yet, all that is there is still to be read. Groups that broadcast keep
their places themselves, and are not told of.

Names, kinds and labels of `rocketmq_…` are those that a broker of RocketMQ 5.5.0 shows to
Prometheus, so that a dashboard made for it works here. Where the two differ:

- Retries and dead letters are not in `rocketmq_messages_in_total`, nor retries that are pulled in
  `rocketmq_messages_out_total`, as there; `rocketmq_send_to_dlq_messages_total` has dead letters.
- What a group that does not pop has in hand is not known, so `…_inflight_messages`,
  `…_ready_messages` and `…_queueing_latency_milliseconds` are told of groups that pop, while at
  most 20,000 of all pops are in flight.
- Of an empty topic the latency is 0.
- `rocketmq_timing_messages` is told for all topics together.
  `rocketmq_timer_dequeue_latency_milliseconds` is in milliseconds, as its name says: RocketMQ's are
  seconds. `rocketmq_timer_enqueue_lag` is left out while the log is not dispatched to its end.
- Notes of pops are kept in memory, so `rocketmq_pop_revive_…` tells of those that are needed still,
  and the out-counter of those that are.
- `rocketmq_processor_watermark`, `rocketmq_pop_offset_buffer_size` and those of RocksDB, tiered
  storage and controllers are not told: nothing here has what they measure, or it shows as
  `rocketpipe_waiting_…`.

| name | kind | labels beside `cluster`, `node_type`, `node_id` | |
|---|---|---|---|
"""

QUERY_METRICS: Final = """
## Streaming queries

Of Spark's queries: at the port of `rocketpipe.pipeline.watch_queries`, and of `--metrics-port` of
`rocketpipe table follow` and `rocketpipe pipeline run`, where a query is a flow. See
[watching queries](spark.md#watching-queries).

| name | kind | labels | |
|---|---|---|---|
"""

API: Final = """\
# The Python API

What `rocketpipe`, `rocketpipe.arrow`, `rocketpipe.blocking`, `rocketpipe.jobs`,
`rocketpipe.pipeline`, `rocketpipe.projects`, `rocketpipe.tables` and `rocketpipe.testing` export is
public, with `rocketpipe.errors` and what else is named here; everything else may change. How it is
used is told by [the client's page](../how-to/client.md) and [the how-tos](../README.md). What may
be raised is also in [errors](errors.md). Times are whole milliseconds where a name ends in `_ms`.
"""

#: Where errors stand that users of clients, of Spark and of the test kit meet.
_USERS_MEET: Final = (
    "rocketpipe.arrow",
    "rocketpipe.client",
    "rocketpipe.jobs",
    "rocketpipe.pipeline",
    "rocketpipe.tables",
    "rocketpipe.testing",
)
#: Labels that every series has.
_EVERYWHERE: Final = {"cluster", "node_type", "node_id"}


# The command


def cli_page() -> Iterator[str]:
    """Every noun and verb with its arguments, from the parsers themselves."""
    yield CLI
    whole = verbs_of(parser_of(noun.name for noun in NOUNS))
    running = verbs_of(parser_of(["broker"], running=True))["broker"]
    for noun in NOUNS:
        yield from _command(whole[noun.name], noun.name, "##")
        if noun.name == "broker":
            for name, verb in verbs_of(running).items():
                yield from _command(verb, f"{noun.name} {name}", "###")


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below one, in the order of its help."""
    for action in parser._actions:  # noqa: SLF001  argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _command(parser: argparse.ArgumentParser, path: str, depth: str) -> Iterator[str]:
    yield f"\n{depth} {path}\n\n{parser.description}\n"
    rows = [row for action in parser._actions if (row := _argument(action))]  # noqa: SLF001
    verbs = verbs_of(parser)
    if rows:
        yield "\n| | |\n|---|---|\n"
        yield from (f"| {name} | {text} |\n" for name, text in rows)
    if parser.epilog and not verbs:
        yield from _below(parser.epilog)
    for name, verb in verbs.items():
        yield from _command(verb, f"{path} {name}", depth + "#")


def _argument(action: argparse.Action) -> tuple[str, str] | None:
    """One argument, written alike whatever Python's argparse would make of it."""
    is_tree = isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
    if is_tree or isinstance(action, argparse._HelpAction):  # noqa: SLF001
        return None
    choices = " ".join(f"`{choice}`" for choice in action.choices or ())
    if action.option_strings:
        shown = ", ".join(f"`{flag}`" for flag in action.option_strings)
        if action.nargs != 0:
            shown += f" {choices or _code(action.metavar or action.dest.upper())}"
    else:
        shown = f"{_code(action.metavar or action.dest)} {choices}".rstrip()
    return shown, cell((action.help or "").replace("%%", "%"))


def _code(name: str | tuple[str, ...]) -> str:
    return cell(f"`{name if isinstance(name, str) else ' '.join(name)}`")


def _below(epilog: str) -> Iterator[str]:
    """What stands below a help: examples are set in, and what is not is prose."""
    lines = [line for line in epilog.splitlines() if line.strip()]
    examples = [line.strip() for line in lines if line.startswith(" ")]
    if examples:
        yield "\n```sh\n" + "".join(f"{line}\n" for line in examples) + "```\n"
    prose = [line for line in lines if not line.startswith((" ", "example"))]
    if prose:
        yield f"\n{' '.join(prose)}\n"


# Errors


def errors_page() -> Iterator[str]:
    """The tree of errors, and the codes that servers answer with."""
    yield ERRORS
    yield "| error | is a | again? | |\n|---|---|---|---|\n"
    for error in _errors(errors.RocketPipeError):
        parent = "" if error is errors.RocketPipeError else f"`{error.__mro__[1].__name__}`"
        again = "yes" if error.retryable else ""
        told = cell(first_line(error, error.__name__))
        yield f"| `{error.__name__}` | {parent} | {again} | {told} |\n"
    yield PARTS
    for error in _errors_of_parts():
        where = f"`{_public_home(error)}`"
        parent = f"`{error.__mro__[1].__name__}`"
        told = cell(first_line(error, error.__name__))
        yield f"| `{error.__name__}` | {where} | {parent} | {told} |\n"
    yield CODES
    for code in ResponseCode:
        if code is not ResponseCode.SUCCESS:
            refusal = errors.RequestRejected(code, "")
            again = "yes" if refusal.retryable else ""
            yield f"| {int(code)} | {code.name} | {again} | {refusal.hint} |\n"


def _errors(root: type[errors.RocketPipeError]) -> Iterator[type[errors.RocketPipeError]]:
    """The errors that ``errors.py`` has, each below what it is a kind of."""
    yield root
    for error in vars(errors).values():
        if isinstance(error, type) and error.__bases__[0] is root:
            yield from _errors(error)


def _public_home(error: type[errors.RocketPipeError]) -> str:
    """Return the path that users import an error by."""
    for module in (
        rocketpipe,
        rocketpipe.strategies,
        rocketpipe.jobs,
        rocketpipe.pipeline,
        rocketpipe.tables,
        rocketpipe.testing,
    ):
        if getattr(module, error.__name__, None) is error:
            return module.__name__
    return error.__module__


def _errors_of_parts() -> list[type[errors.RocketPipeError]]:
    """The errors that stand beside the part that raises them, by their names."""
    for module in pkgutil.walk_packages(rocketpipe.__path__, "rocketpipe."):
        if module.name == "rocketpipe.integrations.airflow":
            continue  # Airflow has an environment of its own
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)
    found: dict[str, type[errors.RocketPipeError]] = {}
    waiting = [errors.RocketPipeError]
    while waiting:
        for error in waiting.pop().__subclasses__():
            waiting.append(error)
            if error.__module__.startswith(_USERS_MEET) and not error.__name__.startswith("_"):
                found[error.__name__] = error
    return [found[name] for name in sorted(found)]


# Metrics


def metrics_page() -> Iterator[str]:
    """What a broker measures that has a topic, a group and a message."""
    yield METRICS
    with tempfile.TemporaryDirectory() as scratch:
        measured = asyncio.run(_measured(Path(scratch)))
    measured += _of_replicas()
    measured += [
        (family.name, str(family.kind), family.help, _labels(family))
        for family in (
            *processes({"broker-a-0": (True, 1)}),
            *tls.measured({"done": 1}, [0]),
            *measured_of_users({"no AccessKey": 1}, 0, 1),
        )
    ]
    yield from _rows(measured)
    yield QUERY_METRICS
    yield from _rows(_of_queries())


def _rows(measured: list[tuple[str, str, str, tuple[str, ...]]]) -> Iterator[str]:
    for name, kind, help_text, labels in sorted(measured):
        shown = ", ".join(f"`{label}`" for label in labels)
        yield f"| `{name}` | {kind} | {shown} | {help_text} |\n"


def _of_queries() -> list[tuple[str, str, str, tuple[str, ...]]]:
    """What a streaming query measures that has had a batch."""
    figures = Figures()
    figures.take(Batch("orders", 0, 1, 1, {"orders": 0}, 0, 0, 0, 0))
    return [
        (family.name, str(family.kind), family.help, _labels(family))
        for family in figures.families()
    ]


async def _undecided(_: object) -> rocketpipe.Decision:
    return rocketpipe.Decision.UNKNOWN


async def _measured(data: Path) -> list[tuple[str, str, str, tuple[str, ...]]]:
    found: list[Core] = []
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=data, name_servers=(names,), port=0, store=StoreConfig.embedded(data)
        )
        async with broker(config, watch=found.append):
            async with (
                rocketpipe.Producer(names, check=_undecided) as producer,
                rocketpipe.PullConsumer(names, group="shop") as consumer,
                rocketpipe.SimpleConsumer(names, group="kitchen", start="first") as pops,
            ):
                queue = (await producer.send("orders", b"one espresso")).queue
                await pops.subscribe("orders")
                while not await pops.receive():
                    pass
                async with producer.transaction("orders", b"one more"):
                    pass
                async with producer.transaction("orders", b"perhaps one more") as tx:
                    tx.unknown()
                async with producer.transaction("orders", b"no more") as tx:
                    tx.rollback()
                found[0].stats.counts.dead_letter("shop", "orders")
                await consumer.assign([queue])
                await consumer.seek(queue, 0)
                while not await consumer.poll():
                    pass
                await consumer.commit()
                return [
                    (family.name, str(family.kind), family.help, _labels(family))
                    for family in families(found[0])
                ]


def _of_replicas() -> list[tuple[str, str, str, tuple[str, ...]]]:
    """What a leader that has a follower measures, and the follower."""
    follower = FollowerStatus(id=2, address="", dialect="", end=0, lag=0, in_sync=True)
    leader = alone(Positions(FlushMode.ASYNC), "")
    found = {
        (family.name, str(family.kind), family.help, _labels(family))
        for status in (
            replace(leader, followers=(follower,)),
            replace(
                leader,
                role="following",
                following=FollowingStatus(master_ha="", connected=True),
            ),
        )
        for family in replication(status, {})
    }
    return list(found)


def _labels(family: Family) -> tuple[str, ...]:
    used = {label: None for series in family.series for label in series.labels}
    return tuple(label for label in used if label not in _EVERYWHERE)


# The API


def api_page() -> Iterator[str]:
    """The index of the API's pages.

    Raises:
        SystemExit: If a name is exported and on no page.
    """
    if names := api_pages.unlisted():
        raise SystemExit(f"on no page of tools/docs/api_pages.py: {', '.join(names)}")
    yield API
    yield from api_pages.index()


PAGES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "cli": cli_page,
    "errors": errors_page,
    "metrics": metrics_page,
    "api": api_page,
    **{f"api/{name}": partial(api_pages.page_of, page) for name, page in api_pages.PAGES.items()},
}


def main() -> int:
    """Print the pages into a directory."""
    parser = argparse.ArgumentParser(description="Print the reference pages.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(PAGES))
    options = parser.parse_args()
    if strange := set(options.pages) - set(PAGES):
        parser.error(f"no such page: {', '.join(sorted(strange))}; there are {', '.join(PAGES)}")
    for name in options.pages or PAGES:
        text = MARK + "".join(PAGES[name]())
        path = options.directory / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
