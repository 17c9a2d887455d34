"""Sends messages from any thread.

with Producer("127.0.0.1:9876", group="shop", check=how_it_ended) as producer:
    with producer.transaction("orders", body) as tx:
        database.commit(tx.message_id)
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Self

from rocketpipe.blocking.background import Life
from rocketpipe.blocking.session import Session, inner_of
from rocketpipe.blocking.staged import StagedSends
from rocketpipe.blocking.wrapper import Blocking, Client, blocking, passed_on
from rocketpipe.client.faults import Variant
from rocketpipe.client.producer.producer import DEFAULT_GROUP, SEND_TIMEOUT_MS
from rocketpipe.client.producer.producer import Producer as AsyncProducer
from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.client.producer.sending.in_flight import MAX_BYTES, MAX_SENDS
from rocketpipe.client.producer.staging.staged import TIMEOUT_MS as STAGED_TIMEOUT_MS
from rocketpipe.client.producer.staging.staged import OnRepeat
from rocketpipe.client.producer.transactions import Check, Decision
from rocketpipe.client.producer.transactions import Transaction as AsyncTransaction
from rocketpipe.client.routes import NEW_TOPIC_QUEUES
from rocketpipe.clock import Clock
from rocketpipe.record.codec import RecordView
from rocketpipe.record.compression import DEFAULT_LEVEL, WORTHWHILE_BYTES
from rocketpipe.record.layout import MAX_BODY_BYTES

P = ParamSpec("P")


class Transaction(Blocking[AsyncTransaction]):
    """A half message, and the ``with`` block at whose end it is decided."""

    @property
    def message_id(self) -> str:
        """The message's id, by which a check may find out how the transaction ended."""
        return self._inner.message_id

    @property
    def sent(self) -> SendResult | None:
        """Where the half message is, once the block is entered."""
        return self._inner.sent

    @property
    def decision(self) -> Decision:
        """How it ends if the block is left normally now."""
        return self._inner.decision

    rollback = passed_on(AsyncTransaction.rollback)
    unknown = passed_on(AsyncTransaction.unknown)
    commit = passed_on(AsyncTransaction.commit)

    def __enter__(self) -> Self:
        self._life.here().run(self._inner.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._life.here().run(self._inner.__aexit__(kind, error, trace))


def _begins(
    method: Callable[Concatenate[AsyncProducer, P], AsyncTransaction],
) -> Callable[Concatenate[Producer, P], Transaction]:
    """The same method, whose transaction is one for ``with``."""
    told = passed_on(method)

    @functools.wraps(method)
    def begin(self: Producer, /, *args: P.args, **kwargs: P.kwargs) -> Transaction:
        return Transaction(told(self, *args, **kwargs), self._life)

    return begin


def _in_thread(check: Check | None) -> Check | None:
    """The same check, beside the loop if it is a plain function: it may call what waits."""
    if check is None or inspect.iscoroutinefunction(check):
        return check

    async def ask(message: RecordView) -> Decision:
        decided: Decision | Awaitable[Decision] = await asyncio.to_thread(check, message)
        return await decided if inspect.isawaitable(decided) else decided

    return ask


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
        avoid_slow: Variant | bool | None = None,
        probe: bool = False,
        compress_over: int | None = WORTHWHILE_BYTES,
        compress_level: int = DEFAULT_LEVEL,
        max_message_bytes: int = MAX_BODY_BYTES,
        max_in_flight: int = MAX_SENDS,
        max_in_flight_bytes: int = MAX_BYTES,
        new_topic_queues: int = NEW_TOPIC_QUEUES,
        trace: bool | str = False,
        check: Check | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """Prepare a producer of a cluster, given by its NameServers or by a session to share.

        The arguments are those of ``rocketpipe.Producer``; ``check`` is called in a thread.

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
            new_topic_queues=new_topic_queues,
            trace=trace,
            check=_in_thread(check),
            clock=clock,
            chance=chance,
        )
        super().__init__(inner, Life("the producer"))

    @property
    def group(self) -> str:
        """Whom brokers take it for."""
        return self._inner.group

    send = blocking(AsyncProducer.send)
    send_async = blocking(AsyncProducer.send_async)
    send_oneway = blocking(AsyncProducer.send_oneway)
    send_batch = blocking(AsyncProducer.send_batch)

    def staged(
        self,
        application: str,
        batch: int,
        *,
        timeout_ms: int = STAGED_TIMEOUT_MS,
        on_repeat: OnRepeat = "fail",
    ) -> StagedSends:
        """Messages that show at the end of a ``with``, all of them, once; see ``StagedSends``."""
        inner = self._inner.staged(application, batch, timeout_ms=timeout_ms, on_repeat=on_repeat)
        return StagedSends(inner, Life("the batch"))

    transaction = _begins(AsyncProducer.transaction)
    send_in_transaction = blocking(AsyncProducer.send_in_transaction)
    recall = blocking(AsyncProducer.recall)
    request = blocking(AsyncProducer.request)
