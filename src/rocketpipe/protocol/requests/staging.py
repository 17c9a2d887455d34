"""Requests of our own, by which messages show all at once, or never.

A writer stages messages in parts, under a stage that it names. Nobody sees them until a commit
names the stage. RocketMQ's servers refuse both codes with 3, REQUEST_CODE_NOT_SUPPORTED, by which a
writer learns whom it talks to: a commit of nothing asks just that.

Where a batch lies at several brokers one of them, its home, decides:

    writer → others   prepare   they keep what is staged until they know what home decided
    writer → home     commit    with the plan: who else has what. From now on it is decided
    writer → others   commit    they show their share
    writer → home     settle    the plan is done, and need not be kept

Whoever has prepared, and hears no more, asks its home, and shows its share if that was decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zlib import crc32

import msgspec

from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body, raw_body, wire
from rocketpipe.protocol.request import Request, request

#: Where NameServers keep which broker decides, by one of a few dozen keys.
HOMES_NAMESPACE: Final = "ROCKETPIPE_STAGE_HOMES"
_HOME_KEYS: Final = 64


def home_key(application: str) -> str:
    """Under which key the broker is kept that decides for an application."""
    return str(crc32(application.encode()) % _HOME_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMessagesReply:
    """What became of a part."""

    #: Whether the batch was committed before: then nothing is kept of the part.
    committed: bool = False


@request(RequestCode.STAGE_MESSAGES)
@dataclass(frozen=True, slots=True, kw_only=True)
class StageMessages(Request[StageMessagesReply]):
    """Keep messages for one queue where nobody sees them; the same part again changes nothing."""

    producer_group: str
    #: Who will commit, and which of its batches this is for.
    application: str
    batch: int
    #: Any name that nobody uses twice, such as a UUID.
    stage: str
    #: Parts of a stage are numbered from 0 at each broker.
    part: I32
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    #: Negative: the broker picks one.
    queue_id: I32
    born_timestamp: int
    broker_name: str | None = wire("bname", default=None)
    #: A batch, as ``record.batch`` writes it; its messages may be delayed ones.
    body: bytes = raw_body(default=b"")


class Share(Body, frozen=True, kw_only=True):
    """What one broker has of a batch."""

    #: How many parts each stage has there.
    stages: dict[str, Int32]
    #: What is in them, in the writer's words: see ``StageList.content``.
    content: str = ""


#: What brokers other than the one that decides have of a batch, by their names.
Plan = dict[str, Share]

_plans: Final = msgspec.json.Decoder(Plan)


def write_plan(plan: Plan) -> str:
    """A plan as a commit carries it."""
    return msgspec.json.encode(plan).decode()


def read_plan(text: str) -> Plan:
    """Read a plan.

    Raises:
        msgspec.MsgspecError: If it is none.
    """
    found: Plan = _plans.decode(text)
    return found


class StageList(Body, frozen=True, kw_only=True):
    """What a commit shows."""

    #: How many parts each stage has at the broker that is asked.
    stages: dict[str, Int32] = msgspec.field(default_factory=dict)
    #: What the committer wants to be told again by whoever commits this batch a second time: who
    #: else has some of it.
    plan: str | None = None
    #: What the batch holds, in the writer's words, also to be told again: so that one can see
    #: whether a second commit is of the same.
    content: str | None = None
    #: By which preparation at the others this commit goes, if there are others.
    token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStagesReply:
    """Whether this commit was the first of its batch, and what the first one said."""

    duplicate: bool = False
    outcome: StageList = json_body(default=StageList())


@request(RequestCode.COMMIT_STAGES)
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStages(Request[CommitStagesReply]):
    """Show everything in the stages named, once; answered when all of it shows."""

    producer_group: str
    application: str
    #: Negative: nothing is committed, it is only asked whether that can be done here.
    batch: int
    broker_name: str | None = wire("bname", default=None)
    named: StageList = json_body(default=StageList())


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareStagesReply:
    """What became of a preparation."""

    #: Whether the batch was committed here before: then there is nothing to keep.
    committed: bool = False
    #: With the content of what was.
    outcome: StageList = json_body(default=StageList())


@request(RequestCode.PREPARE_STAGES)
@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareStages(Request[PrepareStagesReply]):
    """Keep the stages named, whatever their age, until it is known what their home decided."""

    producer_group: str
    application: str
    batch: int
    #: The broker that decides.
    home: str
    broker_name: str | None = wire("bname", default=None)
    named: StageList = json_body(default=StageList())


@dataclass(frozen=True, slots=True, kw_only=True)
class AskStagesReply:
    """What is decided of a batch."""

    decided: bool = False
    #: With the plan, if not all of it is done.
    outcome: StageList = json_body(default=StageList())


@request(RequestCode.ASK_STAGES)
@dataclass(frozen=True, slots=True, kw_only=True)
class AskStages(Request[AskStagesReply]):
    """Ask the broker that decides what became of a batch."""

    application: str
    batch: int
    #: Who asks.
    broker_name: str = wire("bname")
    #: Preparations, with commas between, that who asks lets go of unless it is decided: no commit
    #: may go by them any more.
    given_up: str | None = None


@request(RequestCode.SETTLE_STAGES)
@dataclass(frozen=True, slots=True, kw_only=True)
class SettleStages(Request[None]):
    """Say that a share of the plan shows, so that it need not be kept."""

    application: str
    batch: int
    #: Whose share; without one, all of them.
    share: str | None = None


class StagedApplication(Body, frozen=True, kw_only=True):
    """The newest batches of an application that were committed through a broker."""

    application: str
    batches: tuple[Int64, ...]
    #: What some of them held, in the writer's words, by their numbers as texts.
    contents: dict[str, str] = msgspec.field(default_factory=dict)


class StagedApplications(Body, frozen=True, kw_only=True):
    """All applications that a broker remembers."""

    applications: tuple[StagedApplication, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedApplicationsReply:
    """Who has committed what."""

    staged: StagedApplications = json_body(default=StagedApplications())


@request(RequestCode.LIST_STAGED)
@dataclass(frozen=True, slots=True, kw_only=True)
class ListStaged(Request[StagedApplicationsReply]):
    """Ask which batches were committed, so that another broker can know it too."""

    broker_name: str | None = wire("bname", default=None)
