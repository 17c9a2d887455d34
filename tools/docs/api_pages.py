"""The pages of docs/reference/api: which public names there are, as a reader looks for them.

A name that is exported and on no page, and a public name that says nothing about itself, end the
printing: see ``unlisted``, and ``Silent`` in api_entry.py.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import rocketpipe
import rocketpipe.arrow
import rocketpipe.blocking
import rocketpipe.jobs
import rocketpipe.pipeline
import rocketpipe.projects
import rocketpipe.tables
import rocketpipe.testing
from tools.docs import api_entry
from tools.docs.api_entry import Name

_OPTION: Final = re.compile(r"^    (\w+) {2,}(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """One page: its title, what stands at its top, and its names."""

    title: str
    opening: str
    names: tuple[Name, ...]
    below: Callable[[], Iterator[str]] = lambda: iter(())


def _of(module: str, *names: str) -> tuple[Name, ...]:
    """Names of one module; a star behind one says that users do not make it themselves."""
    return tuple(Name(module, name.rstrip("*"), name.endswith("*")) for name in names)


# The pages


def _admin_nouns() -> Iterator[str]:
    """The nouns of an Admin, which are there once it is made; nothing is opened by that."""
    for noun, part in vars(rocketpipe.Admin("127.0.0.1:9876")).items():
        if not noun.startswith("_"):
            yield f"\n## admin.{noun}\n\n"
            yield from api_entry.said(type(part), f"admin.{noun}")
            yield from api_entry.methods(type(part), f"admin.{noun}")
    yield "\n## What they answer with\n"
    for name in _ANSWERS:
        yield from api_entry.entry(name, "###")


def _blocking_faces() -> Iterator[str]:
    ours = sorted(rocketpipe.blocking.__all__)
    same = [n for n in ours if getattr(rocketpipe.blocking, n) is getattr(rocketpipe, n, None)]
    faces = [name for name in ours if name not in same]
    yield (
        "\n## rocketpipe.blocking\n\n"
        "The same names, arguments and results without `async`, for threads. These have a blocking "
        f"face: {api_entry.coded(faces)}. The rest is the very same: {api_entry.coded(same)}.\n\n"
        "What is `await producer.send(…)` in these pages is `producer.send(…)` there, `async with` "
        "is `with`, and `async for` is `for`. Handlers are plain functions, and run in threads.\n"
    )
    for face in faces:
        value = getattr(rocketpipe.blocking, face)
        yield f"\n### blocking.{face}\n\n"
        yield from api_entry.said(value, face)
        yield from api_entry.signature(face, value)


def _spark_options() -> Iterator[str]:
    from rocketpipe.pipeline.options import read, write

    for title, module, kind in (
        ("Options of reading", read, read.ReadOptions),
        ("Options of writing", write, write.WriteOptions),
    ):
        defaults = {each.name: each.default for each in dataclasses.fields(kind)}
        yield f"\n## {title}\n\n| option | default | |\n|---|---|---|\n"
        for option, text in _OPTION.findall(module.__doc__ or ""):
            default = defaults.get(re.sub("[A-Z]", lambda c: f"_{c[0].lower()}", option))
            told = (
                "" if default in (None, dataclasses.MISSING, ()) else f"`{api_entry.bare(default)}`"
            )
            yield f"| `{option}` | {told} | {api_entry.cell(api_entry.marked(text))} |\n"
    yield (
        "\nWhat each means beside the others, and what the columns are, is told in "
        "[topics in Spark](../../reference/spark.md).\n"
    )


_CLIENT: Final = "rocketpipe.client"
_ANSWERS: Final = (
    *_of(f"{_CLIENT}.admin.topics", "TopicInfo*", "TopicStats*", "QueueStats*"),
    *_of("rocketpipe.model.topic", "TopicSettings*"),
    *_of(f"{_CLIENT}.admin.groups", "GroupInfo*", "GroupMember*", "GroupChanges"),
    *_of(f"{_CLIENT}.admin.progress", "GroupLag*", "QueueLag*", "Move*"),
    *_of(f"{_CLIENT}.admin.offsets", "Ends*", "GroupPlace*"),
    *_of(f"{_CLIENT}.admin.brokers", "BrokerInfo*", "BrokerLoad*"),
    *_of(f"{_CLIENT}.admin.clients", "ConnectedClient*", "ConnectedGroup*"),
    *_of(f"{_CLIENT}.admin.dead_letters", "Replay*", "ReplayOutcome*"),
    *_of(f"{_CLIENT}.admin.traces", "MessageTrace*", "Handling*"),
    *_of(f"{_CLIENT}.admin.waiting", "TimedMessage*", "OpenTransaction*"),
    *_of(f"{_CLIENT}.admin.replicas", "ReplicaInfo*", "Elected*", "Lacking*"),
)

PAGES: Final[dict[str, Page]] = {
    "producing": Page(
        "Producing",
        "Told by example in [sending and consuming](../../how-to/client.md#send).",
        (
            *_of("rocketpipe", "Producer", "SendResult*"),
            *_of(f"{_CLIENT}.producer.parts", "MessageFields"),
            *_of(f"{_CLIENT}.producer.transactions", "Transaction*"),
            *_of("rocketpipe", "Decision"),
            *_of(f"{_CLIENT}.producer.staging.staged", "StagedSends*"),
            *_of("rocketpipe", "Retries", "Batching"),
            *_of("rocketpipe.selectors", "by_hash", "AtRandom", "MachineRooms"),
            *_of("rocketpipe.selectors", "room_of", "java_hash_of"),
            *_of(f"{_CLIENT}.faults", "Variant"),
        ),
    ),
    "consuming": Page(
        "Consuming",
        "Told by example in "
        "[sending and consuming](../../how-to/client.md#consume-as-messages-come).",
        (
            *_of("rocketpipe", "PushConsumer", "PullConsumer", "SimpleConsumer"),
            *_of("rocketpipe", "Retry", "DEAD_LETTER", "ConsumeFromWhere", "StartFrom"),
            *_of("rocketpipe", "PushTuning"),
            *_of("rocketpipe", "ReadLimits"),
            *_of("rocketpipe", "Idempotent", "Sql", "SqliteLedger"),
            *_of(f"{_CLIENT}.idempotent", "Ledger"),
            *_of("rocketpipe.strategies", "Strategy", "consistent_hash", "configured"),
            *_of("rocketpipe.strategies", "machine_room", "room_nearby", "nearest_room"),
        ),
    ),
    "messages": Page(
        "Messages",
        "What is sent, and what is got back.",
        (
            *_of("rocketpipe", "Message", "ReceivedMessage*", "PoppedMessage*"),
            *_of("rocketpipe", "StoredMessage*", "RecordView*", "MessageQueue"),
        ),
    ),
    "sessions": Page(
        "Sessions, and the blocking face",
        "What clients share, and the clients of programs that have threads.",
        _of("rocketpipe", "Session", "TlsSettings", "RocketPipeError", "__version__"),
        _blocking_faces,
    ),
    "observing": Page(
        "Traces and observers",
        "What clients do, told to OpenTelemetry or to somebody else, as it happens.",
        (
            *_of("rocketpipe.otel", "install", "uninstall", "OtelObserver"),
            *_of(f"{_CLIENT}.observers", "Observer", "Sending*", "Receiving*", "Processing*"),
            *_of(f"{_CLIENT}.observers", "Sent*", "Received*", "Ended*"),
        ),
    ),
    "integrations": Page(
        "Integrations",
        "Told by example in [Taskiq](../../how-to/taskiq.md), [web applications]"
        "(../../how-to/web.md) and [Airflow](../../how-to/airflow.md).",
        (
            *_of("rocketpipe.integrations.taskiq", "RocketPipeBroker"),
            *_of("rocketpipe.integrations.asgi", "Messaging", "Readiness*"),
            *_of("rocketpipe.integrations.wsgi", "Messaging"),
        ),
    ),
    "admin": Page(
        "Administration",
        "Every command of [`rocketpipe`](../cli.md) that asks a cluster is made of these.",
        _of("rocketpipe", "Admin"),
        _admin_nouns,
    ),
    "spark": Page(
        "Spark",
        "Told by example in [topics in Spark](../../reference/spark.md).",
        (
            *_of("rocketpipe.pipeline", "register"),
            *_of("rocketpipe.pipeline.launch", "prepare", "local_spark"),
            *_of("rocketpipe.pipeline", "watch_queries", "QueryWatch"),
            *_of("rocketpipe.pipeline", "BatchTable"),
            *_of("rocketpipe.pipeline", "SparkPlace"),
            *_of("rocketpipe.projects", "expect"),
        ),
        _spark_options,
    ),
    "arrow": Page(
        "Arrow",
        "Told by example in [a topic in DuckDB, Polars and pandas](../../how-to/arrow.md).",
        _of("rocketpipe.arrow", "scan", "TopicScan*"),
    ),
    "tables": Page(
        "Tables that follow topics",
        "Told by example in [a topic as a table](../../how-to/tables.md).",
        _of(
            "rocketpipe.tables",
            "follow",
            "FollowReport*",
            "verify",
            "VerifyReport*",
            "Finding*",
            "rebuild",
            "RebuildReport*",
            "replay",
            "ReplayReport*",
            "TableSpec",
            "FollowedTable",
        ),
    ),
    "jobs": Page(
        "Jobs",
        "Told by example in [jobs that ship](../../how-to/jobs.md).",
        _of("rocketpipe.jobs", "run", "JobOptions", "JobRun*", "Outcome*", "RunRecord*"),
    ),
    "testing": Page(
        "Testing",
        "Told by example in [testing against a real broker](../../how-to/testing.md).",
        (
            *_of("rocketpipe.testing", "kit", "Kit*"),
            *_of("rocketpipe.testing.kit_clock", "KitClock*"),
            *_of("rocketpipe.testing.kit_faults", "Faults*"),
            *_of("rocketpipe.testing", "cluster", "Cluster*", "ManualClock"),
            *_of("rocketpipe.testing", "PipelineCopy*"),
            *_of("rocketpipe.testing", "serving", "Servers*", "ServersFailed"),
        ),
    ),
}


def unlisted() -> list[str]:
    """Names that are exported and on no page; there must be none. Errors have their own page."""
    told = {id(name.value) for page in PAGES.values() for name in page.names}
    return [
        f"{module.__name__}.{name}"
        for module in (
            rocketpipe,
            rocketpipe.arrow,
            rocketpipe.jobs,
            rocketpipe.pipeline,
            rocketpipe.projects,
            rocketpipe.tables,
            rocketpipe.testing,
        )
        for name in module.__all__
        if id(value := getattr(module, name)) not in told
        and not inspect.ismodule(value)
        and not (inspect.isclass(value) and issubclass(value, rocketpipe.RocketPipeError))
    ]


def index() -> Iterator[str]:
    """Every page, with the names that are on it."""
    for key, page in PAGES.items():
        yield f"\n## [{page.title}](api/{key}.md)\n"
        rows = []
        for name in page.names:
            told = api_entry.CONSTANTS.get(name.name) or api_entry.first_line(name.value, name.name)
            rows.append((f"[`{name.name}`](api/{key}.md#{name.anchor})", api_entry.cell(told)))
        yield from api_entry.table(("", ""), rows)


def page_of(page: Page) -> Iterator[str]:
    """A page, from its title on."""
    yield f"# {page.title}\n\n{page.opening}\n"
    for name in page.names:
        yield from api_entry.entry(name, "##")
    yield from page.below()
