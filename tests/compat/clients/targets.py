"""The servers that clients are run against: ours, and Apache's, by which the tests are judged."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.compat.support.apache import Apache

from rocketpipe.auth.credentials import Credentials
from rocketpipe.clock import SystemClock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.clients import GetConsumerListByGroup
from rocketpipe.protocol.requests.offsets import GetMaxOffset, QueryConsumerOffset
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.tls_settings import TlsSettings
from rocketpipe.testing.servers import serving

T = TypeVar("T")

#: Each delay and each wait before a retry is a second, so that no test waits for long.
DELAY_LEVELS = " ".join(["1s"] * 18)
PATIENCE_S = 30


class Target:
    """A NameServer and a broker, and what they say when they are asked directly."""

    def __init__(
        self, name_server: str, broker: str, loop: asyncio.AbstractEventLoop, caller: Caller
    ) -> None:
        self.name_server = name_server
        self.broker = broker
        self._loop = loop
        self._caller = caller

    def await_route(self, topic: str) -> None:
        """Wait until the NameServer knows a topic: Apache's broker tells it of new ones later."""
        self._run(self._until_routed(topic))

    def members(self, group: str) -> tuple[str, ...]:
        try:
            reply = self._ask(GetConsumerListByGroup(consumer_group=group))
        except RequestRejected as refusal:
            if refusal.code == ResponseCode.SYSTEM_ERROR:  # a group without members, as Apache says
                return ()
            raise
        return reply.members.consumer_ids

    def until_committed(self, group: str, topic: str, queue: int, offset: int) -> None:
        """Wait until a group has come so far: clients do not wait for an answer to that."""
        deadline = time.monotonic() + PATIENCE_S
        while (committed := self.committed(group, topic, queue)) != offset:
            behind = f"{group} has committed {committed} of {offset} in queue {queue} of {topic}"
            assert time.monotonic() < deadline, behind

    def until_left(self, group: str) -> None:
        """Wait until a group has no members."""
        deadline = time.monotonic() + PATIENCE_S
        while self.members(group):
            assert time.monotonic() < deadline, f"{group} still has members"

    def end(self, topic: str, queue: int) -> int:
        return self._ask(GetMaxOffset(topic=topic, queue_id=queue)).offset

    def committed(self, group: str, topic: str, queue: int) -> int:
        question = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=queue)
        return self._ask(question).offset

    def put(self, topic: str, queue: int, body: bytes) -> None:
        """Send a message to a queue of one's choice, which few clients can."""
        self._ask(
            SendMessage(
                producer_group="probes",
                topic=topic,
                default_topic=AUTO_CREATE_TOPIC,
                default_topic_queue_nums=4,
                queue_id=queue,
                sys_flag=0,
                born_timestamp=SystemClock().now_ms(),
                flag=0,
                properties="",
                body=body,
            )
        )

    def until_end(self, topic: str, queue: int, offset: int) -> None:
        """Wait until a queue holds so many messages."""
        self._run(self._until_end(topic, queue, offset))

    def _ask(self, request: Request[T]) -> T:
        return self._run(self._caller.call(self.broker, request))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _until_routed(self, topic: str) -> None:
        while True:
            try:
                await self._caller.call(self.name_server, GetRouteInfoByTopic(topic=topic))
            except RequestRejected:
                await asyncio.sleep(0.02)
            else:
                return

    async def _until_end(self, topic: str, queue: int, offset: int) -> None:
        question = GetMaxOffset(topic=topic, queue_id=queue)
        while True:
            try:
                if (await self._caller.call(self.broker, question)).offset >= offset:
                    return
            except RequestRejected as refusal:
                if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
            await asyncio.sleep(0.05)


@contextmanager
def background_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own for the length of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="asks servers")
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def asking(
    name_server: str,
    broker: str,
    loop: asyncio.AbstractEventLoop,
    tls: TlsSettings | None = None,
    by: Credentials | None = None,
) -> Iterator[Target]:
    async def make() -> Caller:
        return Caller(tls=tls, sign=by.sign if by is not None else None)

    async def close(caller: Caller) -> None:
        await caller.__aexit__(None, None, None)

    caller = asyncio.run_coroutine_threadsafe(make(), loop).result(PATIENCE_S)
    try:
        yield Target(name_server, broker, loop, caller)
    finally:
        asyncio.run_coroutine_threadsafe(close(caller), loop).result(PATIENCE_S)


@contextmanager
def our_servers(
    scratch: Path,
    flags: Sequence[str] = (),
    tls: TlsSettings | None = None,
    by: Credentials | None = None,
    **more: object,
) -> Iterator[Target]:
    """Ours; ``by`` asks them for a test, and ``more`` are settings of theirs."""
    conf = scratch / "broker.conf"
    settings = {
        "messageDelayLevel": DELAY_LEVELS,
        # A busy machine may take longer than it should to decide by itself.
        "transactionTimeOut": 3000,
        "transactionCheckInterval": 1000,
        **more,
    }
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with serving(scratch, ["-c", str(conf), *flags]) as servers, background_loop() as loop:
        with asking(servers.name_server, servers.broker, loop, tls, by) as target:
            yield target


@contextmanager
def apaches_servers(scratch: Path, apache: Apache) -> Iterator[Target]:
    cluster = apache.cluster(
        scratch,
        messageDelayLevel=DELAY_LEVELS,
        enablePropertyFilter="true",
        # Else a heartbeat that comes with the first pull may be too late for it.
        brokerFastFailureEnable="false",
        transactionTimeOut=5000,
        # It asks anew whose answer it has not noted down for good, and then commits twice.
        transactionCheckInterval=5000,
        transactionOpBatchInterval=100,
    )
    with background_loop() as loop:

        def run(work: Coroutine[Any, Any, T]) -> T:
            return asyncio.run_coroutine_threadsafe(work, loop).result(4 * PATIENCE_S)

        addresses = run(cluster.__aenter__())
        try:
            with asking(addresses.name_servers, addresses.broker, loop) as target:
                yield target
        finally:
            run(cluster.__aexit__(None, None, None))
