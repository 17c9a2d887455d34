"""All kinds of sends and all kinds of consumers at once, recorded; what they do is drawn by lot.

    mix      plain, batches, transactions, timed and recalled, staged batches
               readers    push, two members that share the queues; some handlers fail once
               takers     push by popping; the same
               poppers    receive and acknowledge; some forget, some hide for another time
    steps    by keys, to an ordered group of two
    asked    questions, each with its reply

``Honest`` does what is recorded. A test may have somebody else do it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from tests.scenarios.support.hurried_clock import SPEED, START_MS
from tests.scenarios.support.recorded_calls import RecordedCalls
from tests.scenarios.support.scenario_clients import FIRST, PATIENCE_S, SEND_TIMEOUT_MS, Cast

from rocketpipe import (
    Admin,
    Decision,
    Message,
    Producer,
    PushConsumer,
    RocketPipeError,
    Session,
    SimpleConsumer,
)
from rocketpipe.client.admin.topics import TopicExists
from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.client.producer.staging.staged import StagedSends
from rocketpipe.testing.histories.checker import check
from rocketpipe.testing.histories.decision_recorder import DecisionRecorder
from rocketpipe.testing.histories.facts import Anomaly
from rocketpipe.testing.histories.history import Journal

MIX, STEPS, ASKED = "mix", "steps", "asked"
POPPERS: Final = "poppers"
#: By a hurried clock: three seconds, at most, for which a popped message is hidden. With less a
#: machine that is busy with other things would never get round to acknowledging it.
LONGEST_HIDDEN_MS: Final = 30_000
#: Between two deeds of one player.
PACE_S: Final = 0.03
#: For a batch of which nobody knows how it ended.
MOST_TRIES: Final = 5


def ns_of(now_ms: int) -> int:
    """A time of the hurried clock as histories have it."""
    return (now_ms - START_MS) * 1_000_000 // SPEED


class Honest:
    """Does with messages what is recorded, and nothing else."""

    async def ack(self, consumer: SimpleConsumer, message: PoppedMessage) -> None:
        """Acknowledge what is recorded as acknowledged."""
        await consumer.ack(message)

    def later_ms(self, kind: str, message_id: str) -> int:
        """How much later than is asked for it is recorded to show: ``timed``, or ``hidden``."""
        return 0

    def halves(self, message_id: str) -> bool:
        """Have a half message stored where one is recorded."""
        return True

    def commits(self, message_id: str) -> bool:
        """Commit what is recorded as committed."""
        return True

    def batch(self, number: int, *, again: bool) -> int:
        """The number under which a try at a batch is committed."""
        return number

    async def watch(self, fate: str, message_id: str, body: bytes) -> None:
        """See what became of a message: ``rolled back`` or ``recalled``."""

    @contextlib.contextmanager
    def about(self, message_id: str) -> Iterator[None]:
        """What the block does to a message, or a batch, may fail: then nothing was done."""
        yield


class MixedCast(Cast):
    """Players that decide about messages after they were sent."""

    def recorder(self, name: str) -> DecisionRecorder:
        path = self._directory / f"{name}.jsonl"
        self._journals.append(path)
        return DecisionRecorder(self._stack.enter_context(Journal(path)), name)

    async def take(self, name: str, group: str, topic: str, handle: Any) -> PushConsumer:
        """A member that pushes what it pops, to ``handle`` with its recorder and the consumer."""
        record = self.recorder(name)
        session = Session(self.name_servers, clock=self.clock, instance=name)
        session.leaders = calls = RecordedCalls(session, record, group)
        consumer = PushConsumer(session, group=group, pop=True, start=FIRST, concurrency=4)

        @consumer.on(topic)
        async def handled(message: Any) -> None:
            calls.handled[str(message.handle)] = message
            with record.handling(group, message):
                await handle(consumer, message)

        await self._stack.enter_async_context(consumer)
        record.joined(group, topic, popped=True)
        return consumer


class Load:
    """The players, from one seed."""

    def __init__(self, cast: MixedCast, seed: int, honest: Honest | None = None) -> None:
        self._cast = cast
        self._seed = seed
        self._honest = honest or Honest()
        self._numbers = itertools.count()
        self._sending = True
        self._receiving = True
        #: What a transaction's producer wants, whoever asks.
        self._wanted: dict[str, bool] = {}
        self._asked = cast.recorder("asked-back")
        self._senders: list[asyncio.Task[None]] = []
        self.done = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Producer]:
        """Keep everybody busy while the block lasts; consumers go on until ``settled``."""
        cast = self._cast
        for topic, queues in ((MIX, 4), (STEPS, 4), (ASKED, 2)):
            with contextlib.suppress(TopicExists):  # since the last round
                await cast.create_topic(topic, queues)
        for name in ("reader-1", "reader-2"):
            await cast.join(name, "readers", MIX, fails=_fails_once)
            await cast.take(name.replace("reader", "taker"), "takers", MIX, self._fail_some)
        for name in ("stepper-1", "stepper-2"):
            await cast.join(name, "steppers", STEPS, ordered=True)
        await cast.take("answerer", "answerers", ASKED, _answer)
        async with (
            Session(cast.name_servers, clock=cast.clock, instance="mixer") as session,
            Producer(
                session, group="mixers", timeout_ms=SEND_TIMEOUT_MS, check=self._check
            ) as producer,
            asyncio.TaskGroup() as tasks,
        ):
            for name, deed in (
                ("plain", self._plain),
                ("ordered", self._ordered),
                ("asking", self._ask),
                ("deciding", self._decide),
                ("timing", self._time),
                ("staging", self._stage),
            ):
                self._senders.append(tasks.create_task(self._keep(name, producer, deed)))
            for number in range(3):
                tasks.create_task(self._pop(f"popper-{number}"))
            try:
                yield producer
            finally:
                self._receiving = False

    async def more_done(self, count: int) -> None:
        """Wait for so many more deeds that came through."""
        wanted = self.done + count
        await self._cast.until(lambda: self.done >= wanted)

    async def settled(self, is_known: Callable[[Anomaly], bool] = lambda _: False) -> None:
        """Send no more, and wait until everything shows that is to show, and nothing can again."""
        self._sending = False
        cast = self._cast

        def is_missing(anomaly: Anomaly) -> bool:
            return anomaly.kind in ("lost", "torn") and not is_known(anomaly)

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait(self._senders)
            async with Session(cast.name_servers, clock=cast.clock) as session:
                async with Admin(session) as admin:
                    while await _something_waits(admin):  # noqa: ASYNC110 - as below
                        await asyncio.sleep(0.1)
        # What is missing by then is for whoever checks the history to name.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S / 2):
                while any(map(is_missing, check(cast.history()))):  # noqa: ASYNC110 - others' doing
                    await asyncio.sleep(0.5)
        until_ms = cast.clock.monotonic_ms() + 2 * LONGEST_HIDDEN_MS
        await cast.until(lambda: cast.clock.monotonic_ms() > until_ms)

    # Senders

    async def _keep(
        self,
        name: str,
        producer: Producer,
        deed: Callable[[Producer, DecisionRecorder, random.Random], Awaitable[None]],
    ) -> None:
        """Do it again and again; what does not come through is recorded so, and left at that."""
        record, chance = self._cast.recorder(name), random.Random(f"{self._seed} {name}")
        while self._sending:
            with contextlib.suppress(RocketPipeError):
                await deed(producer, record, chance)
                self.done += 1
            await asyncio.sleep(PACE_S * chance.random())

    def _new(self, kind: str) -> tuple[str, bytes]:
        message_id = f"{kind}-{next(self._numbers):07d}"
        return message_id, f"{message_id} of {self._seed}".encode()

    async def _plain(
        self, producer: Producer, record: DecisionRecorder, chance: random.Random
    ) -> None:
        with contextlib.ExitStack() as sends:
            batch = []
            for _ in range(chance.choice((1, 1, 1, 5))):
                message_id, body = self._new("plain")
                sending = sends.enter_context(record.sending(message_id, MIX, body))
                batch.append((sending, Message(MIX, body, keys=[message_id])))
            if len(batch) == 1:
                batch[0][0].stored(await producer.send(batch[0][1]))
                return
            results = await producer.send_batch([message for _, message in batch])
            for (sending, _), result in zip(batch, results, strict=True):
                sending.stored(result)

    async def _ordered(
        self, producer: Producer, record: DecisionRecorder, chance: random.Random
    ) -> None:
        message_id, body = self._new("step")
        key = f"key-{chance.randrange(8)}"
        with record.sending(message_id, STEPS, body, key=key) as sending:
            sending.stored(await producer.send(STEPS, body, keys=[message_id], order_by=key))

    async def _ask(
        self, producer: Producer, record: DecisionRecorder, chance: random.Random
    ) -> None:
        message_id, body = self._new("question")
        with record.sending(message_id, ASKED, body) as sending:
            reply = await producer.request(ASKED, body, keys=[message_id])
            sending.stored()
        assert reply.body == body.upper()

    async def _decide(
        self, producer: Producer, record: DecisionRecorder, chance: random.Random
    ) -> None:
        message_id, body = self._new("half")
        commit = self._wanted[message_id] = chance.random() < 0.6
        async with AsyncExitStack() as stack:
            stack.enter_context(self._honest.about(message_id))
            with record.sending(message_id, MIX, body, half=True) as sending:
                if not self._honest.halves(message_id):
                    sending.stored(await producer.send(MIX, body, keys=[message_id]))
                    return
                transaction = producer.transaction(MIX, body, keys=[message_id])
                begun = await stack.enter_async_context(transaction)
                sending.stored(begun.sent)
            if chance.random() < 0.3:
                begun.unknown()
                return
            if not commit or not self._honest.commits(message_id):
                begun.rollback()
            with record.deciding(message_id, commit=commit):
                await stack.aclose()
        if not commit:
            await self._honest.watch("rolled back", message_id, body)

    def _check(self, message: Any) -> Decision:
        (message_id,) = message.keys
        commit = self._wanted[message_id]
        self._asked.answering(message_id, commit=commit)
        return Decision.COMMIT if commit else Decision.ROLLBACK

    async def _time(
        self, producer: Producer, record: DecisionRecorder, chance: random.Random
    ) -> None:
        message_id, body = self._new("timed")
        now_ms = self._cast.clock.now_ms()
        level = chance.randrange(4)
        wait_ms = chance.randrange(1, 20_000)
        when: dict[str, Any] = {"deliver_at": now_ms + wait_ms}
        if level:
            wait_ms = (1000, 5000, 10_000)[level - 1]
            when = {"delay_level": level} if chance.random() < 0.5 else {"delay_ms": wait_ms}
        later_ms = self._honest.later_ms("timed", message_id)
        due_ns = ns_of(now_ms + wait_ms + later_ms)
        with (
            self._honest.about(message_id),
            record.sending(message_id, MIX, body, due_ns=due_ns) as sending,
        ):
            result = await producer.send(MIX, body, keys=[message_id], **when)
            sending.stored(result)
        if result.recall_handle is not None and not later_ms and chance.random() < 0.4:
            await asyncio.sleep(PACE_S * chance.random())
            with record.recalling(message_id):
                await producer.recall(MIX, result.recall_handle)
            await self._honest.watch("recalled", message_id, body)

    async def _stage(
        self, producer: Producer, record: DecisionRecorder, chance: random.Random
    ) -> None:
        """Try a batch, again if nobody knows how that ended, and sometimes although one does."""
        number, tries = next(self._numbers), itertools.count()
        commit, give_up = True, False
        plan = chance.choice(((commit,), (commit, commit), (give_up, commit), (give_up,)))
        shows = False
        for commits in plan:
            for _ in range(MOST_TRIES):
                asked = self._honest.batch(number, again=shows)
                stage = f"{next(tries)} of batch-{number:07d}"
                name = f"batch-{number:07d}"
                with contextlib.suppress(RocketPipeError), self._honest.about(name):
                    batch = producer.staged(f"mix-{self._seed}", asked, on_repeat="skip")
                    size = chance.randrange(1, 8)
                    await self._try(batch, record, name, stage, size, commits)
                    shows = commits
                    break

    async def _try(
        self,
        batch: StagedSends,
        record: DecisionRecorder,
        name: str,
        stage: str,
        size: int,
        commits: bool,
    ) -> None:
        with contextlib.suppress(_Abandoned), record.staging(name, stage) as staging:
            async with batch:
                for _ in range(size):
                    message_id, body = self._new("staged")
                    staging.send(message_id, MIX, body)
                    await batch.send(MIX, body, keys=[message_id])
                if not commits:
                    raise _Abandoned
                staging.commits()
            staging.committed()

    # Consumers

    async def _fail_some(self, consumer: PushConsumer, message: Any) -> None:
        if _fails_once(message.keys[0], message.reconsume_times):
            raise ValueError("this one fails once")

    async def _pop(self, name: str) -> None:
        record, chance = self._cast.recorder(name), random.Random(f"{self._seed} {name}")
        clock = self._cast.clock
        session = Session(self._cast.name_servers, clock=clock, instance=name)
        async with SimpleConsumer(session, group=POPPERS) as consumer:
            await consumer.subscribe(MIX)
            record.joined(POPPERS, MIX, popped=True)
            while self._receiving:
                hidden_ms = chance.choice((LONGEST_HIDDEN_MS // 2, LONGEST_HIDDEN_MS))
                until_ns = ns_of(clock.now_ms() + hidden_ms)
                try:
                    got = await consumer.receive(
                        max_messages=8, invisible_ms=hidden_ms, wait_ms=1000
                    )
                except RocketPipeError:
                    await asyncio.sleep(PACE_S)
                    continue
                for message in got:
                    record.got(POPPERS, message, until_ns=until_ns)
                await asyncio.gather(
                    *(self._popped(consumer, record, chance, message) for message in got)
                )

    async def _popped(
        self,
        consumer: SimpleConsumer,
        record: DecisionRecorder,
        chance: random.Random,
        message: PoppedMessage,
    ) -> None:
        lot = chance.random() if message.reconsume_times == 0 else 1.0
        if lot < 0.05:
            return  # and it comes again
        with contextlib.suppress(RocketPipeError), self._honest.about(message.keys[0]):
            if lot < 0.1:
                hidden_ms = chance.choice((0, 2000, LONGEST_HIDDEN_MS))
                later_ms = self._honest.later_ms("hidden", message.keys[0]) if lot < 0.08 else 0
                until_ns = ns_of(self._cast.clock.now_ms() + hidden_ms + later_ms)
                with record.hiding(POPPERS, message, until_ns):
                    await consumer.change_invisible(message, hidden_ms)
                if lot < 0.08:
                    return
            with record.acking(POPPERS, message):
                await self._honest.ack(consumer, message)


async def _something_waits(admin: Admin) -> bool:
    return bool(await admin.waiting.transactions() or await admin.waiting.timed())


class _Abandoned(Exception):
    """A batch is given up before it is committed."""


def _fails_once(message_id: str, times: int) -> bool:
    return times == 0 and message_id.endswith("7")


async def _answer(consumer: PushConsumer, message: Any) -> None:
    with contextlib.suppress(RocketPipeError):  # whoever asked waits no more
        await consumer.reply(message, message.body.upper())
