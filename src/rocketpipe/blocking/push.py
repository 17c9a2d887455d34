"""Hands messages to an application's handlers, in threads.

    consumer = PushConsumer("127.0.0.1:9876", group="billing")

    @consumer.on("orders", tags="paid || refunded")
    def bill(message): ...

    consumer.run()  # until Ctrl-C or SIGTERM

Handlers finish what they have, as they do when a ``with`` around the consumer is left.
"""

from __future__ import annotations

from pathlib import Path

from rocketpipe.blocking.background import Life
from rocketpipe.blocking.session import Session, inner_of
from rocketpipe.blocking.wrapper import Client, blocking, passed_on
from rocketpipe.client.consumer.group.assignment import AVERAGE, Strategy
from rocketpipe.client.consumer.group.start import Start
from rocketpipe.client.consumer.handling.handler_decorators import HandlerDecorators
from rocketpipe.client.consumer.push import PushConsumer as AsyncPushConsumer
from rocketpipe.client.consumer.pushing.plan import CONCURRENCY
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.signals import first_signal
from rocketpipe.clock import Clock
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere


def _queues(inner: AsyncPushConsumer) -> frozenset[MessageQueue]:
    return inner.queues


class PushConsumer(Client[AsyncPushConsumer], HandlerDecorators):
    """Consumes topics for a group, by handlers; see the top of this file.

    A handler is a plain function and runs in a thread of the consumer's, so many at a time as
    ``concurrency`` says; there it may call any blocking client. One that is ``async`` runs on the
    clients' loop, where only asynchronous clients are of use.
    """

    def __init__(
        self,
        name_servers: str | Session,
        *,
        group: str,
        ordered: bool = False,
        broadcast: bool = False,
        pop: bool | None = False,
        start: Start = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        strategy: Strategy = AVERAGE,
        concurrency: int = CONCURRENCY,
        tuning: PushTuning | None = None,
        offsets_root: Path | None = None,
        trace: bool | str = False,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a consumer; nothing is asked or started before its ``with``.

        The arguments are those of ``rocketpipe.PushConsumer``.

        Raises:
            InvalidName: If no group of consumers may have this name.
            ValueError: If a number is out of its range, or ``name_servers`` is no list of them.
            TypeError: If the session is one for asyncio.
        """
        inner = AsyncPushConsumer(
            inner_of(name_servers),
            group=group,
            ordered=ordered,
            broadcast=broadcast,
            pop=pop,
            start=start,
            strategy=strategy,
            concurrency=concurrency,
            tuning=tuning,
            offsets_root=offsets_root,
            trace=trace,
            clock=clock,
        )
        super().__init__(inner, Life("the consumer"))
        self._session = (
            name_servers
            if isinstance(name_servers, Session)
            else Session.around(inner.session, self._life)
        )

    @property
    def group(self) -> str:
        """Whom it consumes for."""
        return self._inner.group

    @property
    def session(self) -> Session:
        """The client that it is part of."""
        return self._session

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that are its share now."""
        return self._queues()

    def run(self) -> None:
        """Consume until Ctrl-C, SIGTERM or ``stop``, and close in order: a program's whole life.

        A second signal does what it would do without this. Only on the main thread signals are
        heard; elsewhere, and beside a framework that has them, ``stop`` ends it.

        Raises:
            ValueError, GroupTaken, OffsetsTaken, RequestRejected: As for its ``with``.
        """
        with first_signal(self.stop) as is_signalled, self:
            if is_signalled():  # before there was anything to stop
                self.stop()
            self.closed()

    def stop(self) -> None:
        """Have it closed, without waiting: for signal handlers, and for handlers of messages."""
        if self._life.loop is not None:  # else there is nothing to stop, and no loop to do it
            self._stop()

    subscribe = passed_on(AsyncPushConsumer.subscribe)
    closed = blocking(AsyncPushConsumer.closed)
    reply = blocking(AsyncPushConsumer.reply)
    suspend = passed_on(AsyncPushConsumer.suspend)
    resume = passed_on(AsyncPushConsumer.resume)
    _stop = passed_on(AsyncPushConsumer.stop)
    _queues = passed_on(_queues)
