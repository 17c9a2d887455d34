"""Requests of our own, by which messages show all at once, or never.

A writer stages messages in parts, under a stage that it names. Nobody sees them until a commit
names the stage. RocketMQ's servers refuse both codes with 3, REQUEST_CODE_NOT_SUPPORTED, by which a
writer learns whom it talks to: a commit of nothing asks just that.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rocketpipe.model.body import Body, Int32
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, json_body, raw_body, wire
from rocketpipe.protocol.request import Request, request


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


class StageList(Body, frozen=True, kw_only=True):
    """What a commit shows."""

    #: How many parts each stage has at the broker that is asked.
    stages: dict[str, Int32] = msgspec.field(default_factory=dict)
    #: What the committer wants to be told again by whoever commits this batch a second time.
    plan: str | None = None


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
