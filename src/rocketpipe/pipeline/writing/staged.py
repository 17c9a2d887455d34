"""Parcels into a stage that nobody sees until the driver commits it: each row shows once.

Each attempt of each task writes a stage of its own, and tells the driver its name and parts. The
driver commits the stages of the attempts that Spark chose, under a name that is the same however
often the work is repeated, and another for whatever is written elsewhere:

    stream         the id of the query, which is that of its checkpoint, and the option ``topic``;
                   the number is that of its micro-batch
    batch          the options ``txn`` and ``topic``; the number is 0
    foreachBatch   ``txn``, the query's id and ``topic``; the number is that of the micro-batch

What other attempts left is dropped with the commit, or expires.

A batch that was committed before has to have had the same rows, in any order and however they were
split, or it is an error. Not so if an earlier run of a stream did it: what a stream reads again is
the same, but what it makes of that may be random.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rocketpipe.client.producer.sending.backoff import Backoff
from rocketpipe.client.producer.sending.publish_routes import PublishRoute, PublishRoutes
from rocketpipe.client.producer.sending.queue_choice import QueueChoice
from rocketpipe.client.producer.staging.content import Content
from rocketpipe.client.producer.staging.stages import Batch, Committer, StageWriter
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute, RocketPipeError
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.write import OnRepeat, WriteOptions
from rocketpipe.pipeline.writing.sender import SendUnit
from rocketpipe.record.batch import encode_batch

#: A commit moves all that was staged, which may take long; it is asked for again meanwhile.
COMMIT_TIMEOUT_MS: Final = 600_000

_ANY_BYTES: Final = 1 << 31
_MAX_NAME: Final = 255
#: In the place of a topic, where each row names its own.
_BY_ROW: Final = "*"


class StagedSink:
    """Writes one stage: what is stored shows with the commit."""

    def __init__(self, session: Session, group: str, batch: Batch, stage: str) -> None:
        self._session = session
        self._lines = PublishRoutes(session, group)
        self._choice = QueueChoice(None, session.clock, session.chance)
        self._writer = StageWriter(session, group, batch, stage)

    @property
    def parts(self) -> Mapping[str, int]:
        """How many parts each broker has."""
        return self._writer.parts

    async def queues(self, topic: str, timeout_ms: int) -> Sequence[MessageQueue]:
        queues = self._choice_of(await self._line(topic))
        if not queues:
            raise NoRoute(topic, str(self._session.name_servers), "its brokers have no leader now")
        return queues

    async def send(self, parcel: SendUnit, queue: MessageQueue | None, timeout_ms: int) -> None:
        topic = parcel.topic
        line = await self._line(topic)
        if parcel.ticket is None:
            chosen = queue or self._one_of(line, parcel.broker)
            if chosen.broker_name in self._writer.committed_at:
                return  # the batch shows there already, and nobody would keep this
            # Once it has a number at a broker it belongs there, also when it is tried again.
            parcel.ticket = self._writer.ticket(chosen)
        broker = parcel.ticket.queue.broker_name
        address = line.address(broker)
        body = bytes(parcel.body)
        if parcel.properties is not None:
            entry = (0, body, parcel.properties.encode())
            body = encode_batch([entry], max_bytes=_ANY_BYTES)
        try:
            if address is None:
                asked = str(self._session.name_servers)
                raise NoRoute(topic, asked, f"broker {broker!r} has no leader now")
            await self._writer.put(parcel.ticket, body, parcel.born_ms, address, timeout_ms)
        except RocketPipeError as error:
            self._session.routes.learn(topic, broker, address, error)
            raise

    async def _line(self, topic: str) -> PublishRoute:
        return self._lines.current(topic) or await self._lines.find(topic)

    def _choice_of(self, line: PublishRoute) -> Sequence[MessageQueue]:
        return line.choice(self._session.routes.leaders.is_awaited)

    def _one_of(self, line: PublishRoute, broker: str | None) -> MessageQueue:
        queues = [each for each in self._choice_of(line) if broker in (None, each.broker_name)]
        if not queues:
            self._lines.drop(line.topic)
            asked = str(self._session.name_servers)
            raise NoRoute(line.topic, asked, f"broker {broker!r} takes none of it now")
        return self._choice.choose(line.topic, queues)

    async def close(self) -> None:
        """It holds nothing: what is staged is the brokers' to drop."""


async def is_served(options: WriteOptions, session: Session) -> bool:
    """Whether all brokers stage; those of RocketMQ do not.

    Raises:
        NoRoute: If there is no broker.
        ConnectionLost, CallTimeout: If one is out of reach.
    """
    return await Committer(session, options.group, options.timeout_ms).is_served()


def application(name: str | None, query: str | None, topic: str | None) -> str:
    """In whose name is staged: for each thing that is written somewhere another.

    ``name`` is the job's own, ``query`` that of its stream, if it has one; ``topic`` where rows go
    that name none.
    """
    text = "/".join(each for each in (name, query, topic or _BY_ROW) if each)
    if len(text) <= _MAX_NAME:
        return text
    end = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"{text[: _MAX_NAME - len(end) - 1]}#{end}".replace(" #", "_#")


async def commit(
    options: WriteOptions,
    batch: Batch,
    stages: Iterable[tuple[str, Mapping[str, int]]],
    contents: Mapping[str, Content] | None = None,
    run: str | None = None,
) -> bool:
    """Show the stages, given with their parts by broker; False if the batch had been committed.

    Raises:
        BatchMismatch: The batch had been committed with other rows, and not by another ``run``.
        RequestRejected: A stage is not there, or not whole: it expired, or its broker lost it.
        NoRoute, ConnectionLost, CallTimeout: A broker is out of reach for long.
    """
    plan: dict[str, dict[str, int]] = {}
    for name, parts in stages:
        for broker, count in parts.items():
            plan.setdefault(broker, {})[name] = count
    timeout_ms = max(options.timeout_ms, COMMIT_TIMEOUT_MS)
    skip = options.on_repeat is OnRepeat.SKIP
    async with options.access.session(options.name_servers) as session:
        committer = Committer(session, options.group, timeout_ms)
        patience = Backoff(session.clock, timeout_ms)
        while True:
            try:
                return await committer.commit(batch, plan, contents, run=run, skip=skip)
            except RocketPipeError as error:
                # All rows are staged: to wait for a NameServer is cheaper than to write them anew.
                await patience.after(error)
