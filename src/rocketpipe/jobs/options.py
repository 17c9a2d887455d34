"""What jobs are told: every option there is, and which job takes which.

The command makes its flags of them, and `rocketpipe.jobs.run` its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args

from rocketpipe.errors import ConfigError, InvalidName
from rocketpipe.model.names import check_consumer_group, check_topic

Format = Literal["delta", "parquet"]
OnGap = Literal["fail", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a job is told; a job looks at those that it takes."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    #: Only what was stored so long ago at most; 0: all there is.
    since_ms: int = 0
    #: What an archive is, where it is new; as it was, where it is not.
    format: Format | None = None
    #: ``earliest``, ``latest`` or a time in ISO 8601.
    start: str | None = None
    on_gap: OnGap | None = None
    ledger: str | None = None
    store: str | None = None
    rebuild: bool = False
    #: The file of the broker whose store is made anew.
    config: str | None = None
    measure_ms: int = 30_000
    #: The messages that are read of each queue to count keys.
    sample: int = 10_000
    trace_topic: str = "RMQ_SYS_TRACE_TOPIC"

    def __post_init__(self) -> None:
        try:
            for topic in (*self.topics, self.trace_topic):
                check_topic(topic)
            for group in self.groups:
                check_consumer_group(group)
        except InvalidName as error:
            raise ConfigError("job", str(error)) from error
        for name, kind in (("format", Format), ("on_gap", OnGap)):
            if getattr(self, name) not in (None, *get_args(kind)):
                choices = ", ".join(get_args(kind))
                raise ConfigError(name, f"is {getattr(self, name)!r}: choose one of {choices}")
        for name in ("since_ms", "measure_ms", "sample"):
            if getattr(self, name) < 0:
                raise ConfigError(name, f"is {getattr(self, name)}: it cannot be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option as people type it."""

    #: The field of `JobOptions`.
    name: str
    flag: str
    help: str
    metavar: str | None = None
    #: How the flag's text is read: as it is, a count, a duration, several of them, a switch.
    kind: Literal["text", "count", "duration", "many", "switch"] = "text"
    choices: tuple[str, ...] | None = None


OPTIONS: Final = {
    each.name: each
    for each in (
        Option(
            name="topics",
            flag="--topic",
            kind="many",
            metavar="NAME",
            help="a topic; may be given several times",
        ),
        Option(
            name="groups",
            flag="--group",
            kind="many",
            metavar="NAME",
            help="only this consumer group; may be given several times",
        ),
        Option(
            name="since_ms",
            flag="--since",
            kind="duration",
            metavar="TIME",
            help="only what was stored in the last TIME, such as 24h (all there is)",
        ),
        Option(
            name="format",
            flag="--format",
            choices=get_args(Format),
            help="the kind of tables of a new archive (delta)",
        ),
        Option(
            name="start",
            flag="--from",
            metavar="earliest|latest|TIME",
            help="the first message of a new archive (earliest); a time is ISO 8601",
        ),
        Option(
            name="on_gap",
            flag="--on-gap",
            choices=get_args(OnGap),
            help="messages that aged out before they were archived (fail)",
        ),
        Option(
            name="ledger",
            flag="--ledger",
            metavar="FILE",
            help="what producers know to be acknowledged: JSON lines, CSV or Parquet, or a "
            "directory of these",
        ),
        Option(
            name="store",
            flag="--store",
            metavar="DIR",
            help="the directory of a store that no broker writes, under a path that Spark's "
            "executors have too",
        ),
        Option(
            name="rebuild",
            flag="--rebuild",
            kind="switch",
            help="make queues and index of the store anew if something is wrong with them alone",
        ),
        Option(
            name="config",
            flag="--config",
            metavar="FILE",
            help="for --rebuild: the file of settings of the store's broker; the environment "
            "counts more, as there",
        ),
        Option(
            name="measure_ms",
            flag="--measure",
            kind="duration",
            metavar="TIME",
            help="over how long rates are measured (30s)",
        ),
        Option(
            name="sample",
            flag="--sample",
            kind="count",
            metavar="N",
            help="how many of the newest messages of a queue are read to count keys (10000)",
        ),
        Option(
            name="trace_topic",
            flag="--trace-topic",
            metavar="NAME",
            help="where clients tell of messages' ways (RMQ_SYS_TRACE_TOPIC)",
        ),
    )
}


def options_of(job: str, takes: tuple[str, ...], given: Mapping[str, Any]) -> JobOptions:
    """What a job is told, of what was given; None is what was not.

    Raises:
        ConfigError: If something is not for this job, or not of its form.
    """
    told = {name: value for name, value in given.items() if value not in (None, (), [], False)}
    for name in told:
        if name not in {each.name for each in fields(JobOptions)}:
            raise ConfigError(name, f"is no option of any job: see `rocketpipe job show {job}`")
        if name not in takes:
            known = ", ".join(OPTIONS[each].flag for each in takes)
            raise ConfigError(OPTIONS[name].flag, f"is not for job {job}, which takes {known}")
    for name in ("topics", "groups"):
        if name in told:
            value = told[name]
            told[name] = (value,) if isinstance(value, str) else tuple(dict.fromkeys(value))
    return JobOptions(**told)
