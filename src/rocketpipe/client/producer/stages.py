"""Stages, as their writer sees them: parts at brokers, then one commit that shows them.

A stage is written by one attempt of somebody's work, under a name of its own, in parts. Each part
is numbered at its broker, so that one that was sent twice counts once. The commit names the
application, its batch, and of each stage how many parts each broker has.

Each broker commits for itself. The first to be asked is the same for every batch and attempt: see
``stage_homes``. It is told the whole plan, and tells it to whoever commits the batch again; who
then completes that plan, not its own. So a batch shows once, also if its writer died when some
brokers had committed and others had not.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from rocketpipe.client.producer.patience import Patience
from rocketpipe.client.producer.stage_homes import StageHomes
from rocketpipe.client.routes import NEW_TOPIC_QUEUES
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute, RequestRejected, RocketPipeError
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo
from rocketpipe.protocol.requests.staging import CommitStages, StageList, StageMessages

Plan = Mapping[str, Mapping[str, int]]
"""Of each broker, how many parts of each stage it has."""

_plans: Final = msgspec.json.Decoder(dict[str, dict[str, int]])


@dataclass(frozen=True, slots=True)
class Batch:
    """Whose batch it is, and which; the same pair is committed once."""

    application: str
    number: int


@dataclass(frozen=True, slots=True)
class Ticket:
    """The place of one part: which queue its messages are for, and its number there."""

    queue: MessageQueue
    number: int


class StageWriter:
    """Writes one stage, at as many brokers as its messages go to."""

    def __init__(
        self,
        session: Session,
        group: str,
        batch: Batch,
        name: str | None = None,
        *,
        new_topic_queues: int = NEW_TOPIC_QUEUES,
    ) -> None:
        """Take a name that nobody uses twice; without one, it is a new UUID.

        ``new_topic_queues`` is how many a topic is to have that is created for the stage.
        """
        self._session = session
        self._group = group
        self._batch = batch
        self._new_queues = new_topic_queues
        self.name = name or str(uuid.uuid4())
        #: By broker, how many parts were numbered.
        self.parts: dict[str, int] = {}
        #: Whether a broker said that the batch was committed before.
        self.is_committed = False

    def ticket(self, queue: MessageQueue) -> Ticket:
        """Number the next part; it has to be written, or the stage is not whole."""
        number = self.parts.get(queue.broker_name, 0)
        self.parts[queue.broker_name] = number + 1
        return Ticket(queue, number)

    async def put(
        self, ticket: Ticket, body: bytes, born_ms: int, address: str, timeout_ms: int
    ) -> None:
        """Write a part, or write it again where it is not known whether it arrived.

        Raises:
            RequestRejected: The broker refuses it; with code 3 if it does not stage at all.
            ConnectionLost, CallTimeout: It is out of reach, or does not answer.
        """
        queue = ticket.queue
        request = StageMessages(
            producer_group=self._group,
            application=self._batch.application,
            batch=self._batch.number,
            stage=self.name,
            part=ticket.number,
            topic=queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=self._new_queues,
            queue_id=queue.queue_id,
            born_timestamp=born_ms,
            broker_name=queue.broker_name,
            body=body,
        )
        reply = await self._session.caller.call(address, request, timeout_ms)
        self.is_committed |= reply.committed


class Committer:
    """Commits batches of stages for one application."""

    def __init__(self, session: Session, group: str, timeout_ms: int) -> None:
        """Take how long a broker that does not answer is asked again."""
        self._session = session
        self._group = group
        self._timeout_ms = timeout_ms
        self._homes = StageHomes(session)

    async def commit(self, batch: Batch, plan: Plan) -> bool:
        """Show every stage of the plan, once; False if the batch had been committed before.

        Raises:
            RequestRejected: A stage is not there, or not whole; nothing of it shows then.
            NoRoute, ConnectionLost, CallTimeout: A broker is out of reach. The same commit again
                completes what was begun.
        """
        home = await self._home(batch.application)
        elsewhere: Plan = {name: stages for name, stages in plan.items() if name != home}
        text = msgspec.json.encode(elsewhere).decode() if elsewhere else None
        duplicate, told = await self._ask(
            home, batch, StageList(stages=dict(plan.get(home, {})), plan=text)
        )
        if duplicate:
            elsewhere = _plans.decode(told) if told else {}
        for name in sorted(elsewhere):
            await self._ask(name, batch, StageList(stages=dict(elsewhere[name])))
        return not duplicate

    async def _home(self, application: str) -> str:
        patience = Patience(self._session.clock, self._timeout_ms)
        while True:
            try:
                return await self._homes.of(application, await self._brokers())
            except RocketPipeError as error:
                await patience.after(error)

    async def is_served(self) -> bool:
        """Whether every broker can do it; one of RocketMQ's own cannot.

        Raises:
            NoRoute: If there is no broker.
            ConnectionLost, CallTimeout: If one is out of reach.
        """
        for name in await self._brokers():
            try:
                await self._ask(name, Batch("", -1), StageList())
            except RequestRejected as error:
                if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    return False
                raise
        return True

    async def _brokers(self) -> dict[str, str]:
        """Where each broker takes writes, by name."""
        reply = await self._session.directory.ask(GetBrokerClusterInfo())
        brokers = reply.cluster_brokers.brokers
        found = {name: each.leader for name, each in brokers.items() if each.leader is not None}
        if not found:
            asked = str(self._session.name_servers)
            raise NoRoute(AUTO_CREATE_TOPIC, asked, "no broker is registered there")
        return found

    async def _ask(self, name: str, batch: Batch, named: StageList) -> tuple[bool, str | None]:
        request = CommitStages(
            producer_group=self._group,
            application=batch.application,
            batch=batch.number,
            broker_name=name,
            named=named,
        )
        patience = Patience(self._session.clock, self._timeout_ms)
        while True:
            try:
                address = (await self._brokers()).get(name)
                if address is None:
                    asked = str(self._session.name_servers)
                    raise NoRoute(name, asked, f"broker {name!r} is not registered now: start it")
                reply = await self._session.caller.call(address, request, patience.attempt_ms)
            except RocketPipeError as error:
                await patience.after(error)
            else:
                return reply.duplicate, reply.outcome.plan
