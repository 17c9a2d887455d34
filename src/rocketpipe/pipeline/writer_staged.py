"""Parcels into a stage that nobody sees until the driver commits it: each row shows once.

Each attempt of each task writes a stage of its own, and tells the driver its name and parts. The
driver commits the stages of the attempts that Spark chose, under a name that is the same however
often the work is repeated:

    stream   the id of the query, which is that of its checkpoint, and the number of its micro-batch
    batch    the option ``txn``, batch 0

What other attempts left is dropped with the commit, or expires.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rocketpipe.client.producer.lines import Lines
from rocketpipe.client.producer.patience import Patience
from rocketpipe.client.producer.queue_choice import QueueChoice
from rocketpipe.client.producer.stages import Batch, Committer, StageWriter
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute, RocketPipeError
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.write_options import WriteOptions
from rocketpipe.pipeline.writer_outlet import Parcel
from rocketpipe.record.batch import encode_batch

#: A commit moves all that was staged, which may take long; it is asked for again meanwhile.
COMMIT_TIMEOUT_MS: Final = 600_000

_ANY_BYTES: Final = 1 << 31


class StagedWay:
    """Writes one stage: what is stored shows with the commit."""

    def __init__(self, session: Session, group: str, batch: Batch, stage: str) -> None:
        self._session = session
        self._lines = Lines(session, group)
        self._choice = QueueChoice(None, session.clock, session.chance)
        self._writer = StageWriter(session, group, batch, stage)

    @property
    def parts(self) -> Mapping[str, int]:
        """How many parts each broker has."""
        return self._writer.parts

    async def queues(self, topic: str, timeout_ms: int) -> Sequence[MessageQueue]:
        line = self._lines.known(topic) or await self._lines.find(topic)
        return line.queues

    async def send(self, parcel: Parcel, queue: MessageQueue | None, timeout_ms: int) -> None:
        if self._writer.is_committed:
            return  # the batch shows already, and nobody would keep this
        topic = parcel.topic
        line = self._lines.known(topic) or await self._lines.find(topic)
        if parcel.ticket is None:
            # Once it has a number at a broker it belongs there, also when it is tried again.
            chosen = queue or self._choice.choose(topic, line.queues)
            parcel.ticket = self._writer.ticket(chosen)
        broker = parcel.ticket.queue.broker_name
        address = line.address(broker)
        if address is None:
            self._lines.drop(topic)
            asked = str(self._session.name_servers)
            raise NoRoute(topic, asked, f"broker {broker!r} has no leader now")
        body = bytes(parcel.body)
        if parcel.properties is not None:
            entry = (0, body, parcel.properties.encode())
            body = encode_batch([entry], max_bytes=_ANY_BYTES)
        await self._writer.put(parcel.ticket, body, parcel.born_ms, address, timeout_ms)

    async def close(self) -> None:
        """It holds nothing: what is staged is the brokers' to drop."""


async def is_served(options: WriteOptions, session: Session) -> bool:
    """Whether all brokers stage; those of RocketMQ do not.

    Raises:
        NoRoute: If there is no broker.
        ConnectionLost, CallTimeout: If one is out of reach.
    """
    return await Committer(session, options.group, options.timeout_ms).is_served()


async def commit(
    options: WriteOptions, batch: Batch, stages: Iterable[tuple[str, Mapping[str, int]]]
) -> bool:
    """Show the stages, given with their parts by broker; False if the batch had been committed.

    Raises:
        RequestRejected: A stage is not there, or not whole: it expired, or its broker lost it.
        NoRoute, ConnectionLost, CallTimeout: A broker is out of reach for long.
    """
    plan: dict[str, dict[str, int]] = {}
    for name, parts in stages:
        for broker, count in parts.items():
            plan.setdefault(broker, {})[name] = count
    timeout_ms = max(options.timeout_ms, COMMIT_TIMEOUT_MS)
    async with Session(options.name_servers) as session:
        committer = Committer(session, options.group, timeout_ms)
        patience = Patience(session.clock, timeout_ms)
        while True:
            try:
                return await committer.commit(batch, plan)
            except RocketPipeError as error:
                # All rows are staged: to wait for a NameServer is cheaper than to write them anew.
                await patience.after(error)
