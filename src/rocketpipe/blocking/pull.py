"""Reads topics at the application's own pace.

    with PullConsumer("127.0.0.1:9876", group="billing") as consumer:
        consumer.subscribe("orders", tags="paid || refunded")
        for message in consumer:
            ...

Messages are fetched ahead. Asking for more says that what came before is done: that much is
committed every five seconds, and when the consumer is closed without an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocketpipe.blocking.background import Life
from rocketpipe.blocking.session import Session, inner_of
from rocketpipe.blocking.wrapper import Client, blocking, passed_on
from rocketpipe.client.consumer.group.assignment import AVERAGE, Strategy
from rocketpipe.client.consumer.group.offsets import OffsetStore
from rocketpipe.client.consumer.group.start import Start
from rocketpipe.client.consumer.pull import AUTO_COMMIT_MS
from rocketpipe.client.consumer.pull import PullConsumer as AsyncPullConsumer
from rocketpipe.client.consumer.pulling.loop import BATCH
from rocketpipe.client.consumer.pulling.read_ahead import ReadLimits
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.clock import Clock
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere


def _queues(inner: AsyncPullConsumer) -> frozenset[MessageQueue]:
    return inner.queues


class PullConsumer(Client[AsyncPullConsumer]):
    """Hands out messages when it is asked for some. Use it inside ``with``, from one thread."""

    def __init__(
        self,
        name_servers: str | Session,
        *,
        group: str,
        broadcast: bool = False,
        strategy: Strategy = AVERAGE,
        start: Start = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        auto_commit: bool = True,
        auto_commit_ms: int = AUTO_COMMIT_MS,
        limits: ReadLimits | None = None,
        batch: int = BATCH,
        offsets: OffsetStore | None = None,
        offsets_root: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a member of ``group``; nothing is asked yet.

        The arguments are those of ``rocketpipe.PullConsumer``; a store in ``offsets`` is called on
        the clients' loop.

        Raises:
            InvalidName: If no group of consumers may have this name.
            ValueError: If ``name_servers`` is no list of addresses, or a number is out of range.
            TypeError: If the session is one for asyncio.
        """
        inner = AsyncPullConsumer(
            inner_of(name_servers),
            group=group,
            broadcast=broadcast,
            strategy=strategy,
            start=start,
            auto_commit=auto_commit,
            auto_commit_ms=auto_commit_ms,
            limits=limits,
            batch=batch,
            offsets=offsets,
            offsets_root=offsets_root,
            clock=clock,
        )
        super().__init__(inner, Life("the consumer"))

    @property
    def group(self) -> str:
        """Whom it reads for."""
        return self._inner.group

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return self._queues()

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Every message as it comes, until the loop is left; then the last one counts as done.

        Each is asked for on its own, so that the ones behind it are not done with it; ``poll`` is
        faster where that does not matter.
        """
        while True:
            yield from self.poll(most=1)

    subscribe = blocking(AsyncPullConsumer.subscribe)
    unsubscribe = blocking(AsyncPullConsumer.unsubscribe)
    queues_of = blocking(AsyncPullConsumer.queues_of)
    assign = blocking(AsyncPullConsumer.assign)
    poll = blocking(AsyncPullConsumer.poll)
    pause = passed_on(AsyncPullConsumer.pause)
    resume = passed_on(AsyncPullConsumer.resume)
    position = passed_on(AsyncPullConsumer.position)
    positions = passed_on(AsyncPullConsumer.positions)
    seek = blocking(AsyncPullConsumer.seek)
    seek_to_begin = blocking(AsyncPullConsumer.seek_to_begin)
    seek_to_end = blocking(AsyncPullConsumer.seek_to_end)
    seek_to_time = blocking(AsyncPullConsumer.seek_to_time)
    commit = blocking(AsyncPullConsumer.commit)
    committed = blocking(AsyncPullConsumer.committed)
    reply = blocking(AsyncPullConsumer.reply)
    _queues = passed_on(_queues)
