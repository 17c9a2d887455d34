"""Receives messages one by one, and acknowledges each when it is done with it.

with SimpleConsumer("127.0.0.1:9876", group="billing") as consumer:
    consumer.subscribe("orders")
    for message in consumer.receive(max_messages=16, invisible_ms=30_000):
        ...
        consumer.ack(message)
"""

from __future__ import annotations

from rocketpipe.blocking.background import Life
from rocketpipe.blocking.session import Session, inner_of
from rocketpipe.blocking.wrapper import Client, blocking
from rocketpipe.client.consumer.group.start import Start
from rocketpipe.client.consumer.simple import SimpleConsumer as AsyncSimpleConsumer
from rocketpipe.clock import Clock
from rocketpipe.model.subscription import ConsumeFromWhere


class SimpleConsumer(Client[AsyncSimpleConsumer]):
    """Receives for a group. Use it inside ``with``, from any thread."""

    def __init__(
        self,
        name_servers: str | Session,
        *,
        group: str,
        ordered: bool = False,
        start: Start = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a member of ``group``; nothing is asked yet.

        The arguments are those of ``rocketpipe.SimpleConsumer``.

        Raises:
            InvalidName: If no group of consumers may have this name.
            ValueError: If ``name_servers`` is no list of addresses.
            TypeError: If the session is one for asyncio.
        """
        inner = AsyncSimpleConsumer(
            inner_of(name_servers), group=group, ordered=ordered, start=start, clock=clock
        )
        super().__init__(inner, Life("the consumer"))

    @property
    def group(self) -> str:
        """Whom it receives for."""
        return self._inner.group

    subscribe = blocking(AsyncSimpleConsumer.subscribe)
    unsubscribe = blocking(AsyncSimpleConsumer.unsubscribe)
    receive = blocking(AsyncSimpleConsumer.receive)
    ack = blocking(AsyncSimpleConsumer.ack)
    change_invisible = blocking(AsyncSimpleConsumer.change_invisible)
