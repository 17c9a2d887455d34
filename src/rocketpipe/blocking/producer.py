"""Sends messages from any thread."""

from __future__ import annotations

import random

from rocketpipe.blocking.background import Life
from rocketpipe.blocking.face import Client, waits
from rocketpipe.blocking.session import Session, inner_of
from rocketpipe.client.faults import Variant
from rocketpipe.client.producer.batching import Batching
from rocketpipe.client.producer.in_flight import MAX_BYTES, MAX_SENDS
from rocketpipe.client.producer.producer import DEFAULT_GROUP, SEND_TIMEOUT_MS
from rocketpipe.client.producer.producer import Producer as AsyncProducer
from rocketpipe.client.producer.retry import Retries
from rocketpipe.clock import Clock
from rocketpipe.record.compression import DEFAULT_LEVEL, WORTHWHILE_BYTES
from rocketpipe.record.layout import MAX_BODY_BYTES


class Producer(Client[AsyncProducer]):
    """Sends to any topic: ``with Producer("127.0.0.1:9876") as producer``.

    Threads may share one, and should: with ``batching`` what they send at the same time goes
    together. Selectors, and callbacks of ``send_async``, are called on the clients' loop, so they
    must be short, and may not call what waits.
    """

    def __init__(
        self,
        name_servers: str | Session,
        *,
        group: str = DEFAULT_GROUP,
        timeout_ms: int = SEND_TIMEOUT_MS,
        retries: Retries | None = None,
        batching: Batching | None = None,
        avoid_slow: Variant | None = None,
        probe: bool = False,
        compress_over: int | None = WORTHWHILE_BYTES,
        compress_level: int = DEFAULT_LEVEL,
        max_message_bytes: int = MAX_BODY_BYTES,
        max_in_flight: int = MAX_SENDS,
        max_in_flight_bytes: int = MAX_BYTES,
        trace: bool | str = False,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """Prepare a producer of a cluster, given by its NameServers or by a session to share.

        The arguments are those of ``rocketpipe.Producer``.

        Raises:
            InvalidName: If no group may have this name.
            ValueError: If ``name_servers`` or a number makes no sense.
            TypeError: If the session is one for asyncio.
        """
        inner = AsyncProducer(
            inner_of(name_servers),
            group=group,
            timeout_ms=timeout_ms,
            retries=retries,
            batching=batching,
            avoid_slow=avoid_slow,
            probe=probe,
            compress_over=compress_over,
            compress_level=compress_level,
            max_message_bytes=max_message_bytes,
            max_in_flight=max_in_flight,
            max_in_flight_bytes=max_in_flight_bytes,
            trace=trace,
            clock=clock,
            chance=chance,
        )
        super().__init__(inner, Life("the producer"))

    @property
    def group(self) -> str:
        """Whom brokers take it for."""
        return self._inner.group

    send = waits(AsyncProducer.send)
    send_async = waits(AsyncProducer.send_async)
    send_oneway = waits(AsyncProducer.send_oneway)
    send_batch = waits(AsyncProducer.send_batch)
