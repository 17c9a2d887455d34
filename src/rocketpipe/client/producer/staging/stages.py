"""Stages, as their writer sees them: parts at brokers, then one commit that shows them.

A stage is written by one attempt of somebody's work, under a name of its own, in parts. Each part
is numbered at its broker, so that one that was sent twice counts once. The commit names the
application, its batch, and of each stage how many parts each broker has.

One broker decides, the same for every batch and attempt: see ``stage_homes``. The others are told
beforehand to keep what they have. It is told the whole plan, and tells it to whoever commits the
batch again; who then completes that plan, not its own. So a batch shows once, also if its writer
died when some brokers had committed and others had not.

Messages that may go anywhere are spread over brokers by what is in them (`brokers_of`), so that
each attempt brings the same ones to the same broker. If a broker has lost its share of what was
decided, that of the new attempt takes its place: it is the same.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from rocketpipe.client.producer.sending.backoff import Backoff
from rocketpipe.client.producer.staging.content import Content
from rocketpipe.client.producer.staging.homes import StageHomes
from rocketpipe.client.routes import NEW_TOPIC_QUEUES
from rocketpipe.client.session import Session
from rocketpipe.errors import (
    BatchMismatch,
    LostShare,
    NoRoute,
    RequestRejected,
    RocketPipeError,
)
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.refusals import leader_in
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo
from rocketpipe.protocol.requests.staging import (
    HOMES_NAMESPACE,
    AskStages,
    CommitStages,
    CommitStagesReply,
    PrepareStages,
    PrepareStagesReply,
    SettleStages,
    Share,
    StageList,
    StageMessages,
    home_key,
    read_plan,
    write_plan,
)

log = logging.getLogger(__name__)

Reply = TypeVar("Reply")

#: Of each broker, how many parts of each stage it has.
Plan = Mapping[str, Mapping[str, int]]

#: How long the broker that decided is told that all is done: it would hear by itself.
_SETTLE_MS: Final = 3000
_GONE: Final = "if it is gone for good, start an empty one of its name, and stage the batch again"


def brokers_of(queues: Iterable[MessageQueue]) -> list[str]:
    """The brokers that messages are spread over which may go to any of these queues.

    By their checksums: each goes to the one at ``checksum % len(…)``.
    """
    return sorted({queue.broker_name for queue in queues})


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
        #: The brokers that said that the batch was committed there before.
        self.committed_at: set[str] = set()

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
        if reply.committed:
            self.committed_at.add(queue.broker_name)


class Committer:
    """Commits batches of stages for one application."""

    def __init__(self, session: Session, group: str, timeout_ms: int) -> None:
        """Take how long a broker that does not answer is asked again."""
        self._session = session
        self._group = group
        self._timeout_ms = timeout_ms
        self._homes = StageHomes(session)

    async def commit(
        self,
        batch: Batch,
        plan: Plan,
        contents: Mapping[str, Content] | None = None,
        *,
        run: str | None = None,
        skip: bool = False,
    ) -> bool:
        """Show every stage of the plan, once; False if the batch had been committed before.

        ``contents`` says what each broker has. What was committed before has to have been the same,
        unless another ``run`` of a stream did it, or ``skip`` says that it does not matter.

        Raises:
            BatchMismatch: The batch had been committed before, with other messages.
            RequestRejected: A stage is not there, or not whole; nothing of it shows then.
            NoRoute, ConnectionLost, CallTimeout: A broker is out of reach. The same commit again
                completes what was begun.
        """
        home = await self._home(batch.application)
        shares = {
            name: Share(stages=dict(stages), content=_text(contents, name))
            for name, stages in plan.items()
            if name != home
        }
        token = uuid.uuid4().hex
        shown: dict[str, Content | None] = {}
        for name in sorted(shares):
            reply = await self._prepare(name, batch, home, token, shares[name])
            if reply.committed:
                shown[name] = Content.of(reply.outcome.content)
        if shown and not await self._is_decided(home, batch):
            # It was, but home has forgotten it, or lost everything. What shows is not shown again,
            # and if that is something else, some of this batch would never show.
            for name, before in shown.items():
                now = Content.of(shares[name].content)
                self._compare(batch, before, now, run=run, skip=skip)
        whole = _whole(contents, run)
        named = StageList(
            stages=dict(plan.get(home, {})),
            plan=write_plan(shares) if shares else None,
            content=None if whole is None else whole.text(),
            token=token if shares else None,
        )
        gone = (
            f"if it is gone for good: rocketpipe-mqadmin deleteKvConfig -s {HOMES_NAMESPACE} "
            f"-k {home_key(batch.application)}"
        )
        told = await self._ask(home, batch, named, gone)
        decided = shares
        if told.duplicate:
            decided = read_plan(told.outcome.plan) if told.outcome.plan else {}
            before = Content.of(told.outcome.content)
            self._compare(batch, before, whole, run=run, skip=skip)
            skip = skip or _is_other_run(before, run)
        for name in sorted(decided):
            await self._show(name, batch, decided[name], shares.get(name), skip=skip)
        if decided:
            await self._settle(home, batch)
        return not told.duplicate

    def _compare(
        self,
        batch: Batch,
        before: Content | None,
        now: Content | None,
        *,
        run: str | None,
        skip: bool,
    ) -> None:
        if before is None or now is None or before.is_like(now):
            return
        if not skip and not _is_other_run(before, run):
            raise BatchMismatch(batch.application, batch.number, str(before), str(now))
        log.warning(
            "a batch was committed before with other messages, and is not written again "
            "application=%s batch=%d before=%s now=%s",
            batch.application,
            batch.number,
            before,
            now,
        )

    async def _is_decided(self, home: str, batch: Batch) -> bool:
        request = AskStages(
            application=batch.application, batch=batch.number, broker_name=self._group
        )
        return (await self._call(home, request)).decided

    async def _prepare(
        self, name: str, batch: Batch, home: str, token: str, share: Share
    ) -> PrepareStagesReply:
        request = PrepareStages(
            producer_group=self._group,
            application=batch.application,
            batch=batch.number,
            home=home,
            broker_name=name,
            named=StageList(stages=share.stages, token=token),
        )
        return await self._call(name, request)

    async def _show(
        self, name: str, batch: Batch, share: Share, own: Share | None, *, skip: bool
    ) -> None:
        """Have a broker show what was decided; if it has lost that, what was staged now."""
        try:
            await self._ask(name, batch, _named(share))
        except RequestRejected as error:
            if error.code != ResponseCode.INVALID_PARAMETER or own is None or own == share:
                raise
            lost, now = Content.of(share.content), Content.of(own.content)
            if lost is not None and now is not None and not lost.is_like(now):
                if not skip:
                    raise LostShare(
                        batch.application, batch.number, name, str(lost), str(now)
                    ) from error
                log.warning(
                    "a broker has lost its share of a batch, and what takes its place is not the "
                    "same application=%s batch=%d broker=%s lost=%s now=%s",
                    batch.application,
                    batch.number,
                    name,
                    lost,
                    now,
                )
            await self._ask(name, batch, _named(own))
            log.warning(
                "a broker had lost its share of a batch, which was staged again and shows "
                "application=%s batch=%d broker=%s",
                batch.application,
                batch.number,
                name,
            )

    async def _settle(self, home: str, batch: Batch) -> None:
        request = SettleStages(application=batch.application, batch=batch.number)
        try:
            address = (await self._brokers()).get(home)
            if address is not None:
                await self._session.caller.call(address, request, _SETTLE_MS)
        except RocketPipeError as error:
            log.info("home not told that all is done home=%s reason=%s", home, error)

    async def _home(self, application: str) -> str:
        patience = Backoff(self._session.clock, self._timeout_ms)
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

    async def _ask(
        self, name: str, batch: Batch, named: StageList, gone: str = _GONE
    ) -> CommitStagesReply:
        request = CommitStages(
            producer_group=self._group,
            application=batch.application,
            batch=batch.number,
            broker_name=name,
            named=named,
        )
        return await self._call(name, request, gone)

    async def _call(self, name: str, request: Request[Reply], gone: str = _GONE) -> Reply:
        patience = Backoff(self._session.clock, self._timeout_ms)
        named: str | None = None
        while True:
            try:
                address, named = named or (await self._brokers()).get(name), None
                if address is None:
                    asked = str(self._session.name_servers)
                    hint = f"broker {name!r} is not registered now: start it; {gone}"
                    raise NoRoute(name, asked, hint)
                return await self._session.caller.call(address, request, patience.attempt_ms)
            except RocketPipeError as error:
                await patience.after(error)
                if isinstance(error, RequestRejected):
                    named = leader_in(error.remark)


def _named(share: Share) -> StageList:
    return StageList(stages=share.stages, content=share.content or None)


def _text(contents: Mapping[str, Content] | None, name: str) -> str:
    found = None if contents is None else contents.get(name)
    return "" if found is None else found.text()


def _whole(contents: Mapping[str, Content] | None, run: str | None) -> Content | None:
    if contents is None:
        return None
    whole = Content(run=run)
    for each in contents.values():
        whole.join(each)
    return whole


def _is_other_run(before: Content | None, run: str | None) -> bool:
    """Whether a run of a stream does again what an earlier one did: what is random may differ."""
    return run is not None and before is not None and before.run != run
