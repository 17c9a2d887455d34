"""How fast our client is, beside a bare asyncio client that sends the same frames.

Everything runs in one go against the same broker, which has a process of its own:

    bare         a socket, a future for each frame, answers told apart by their opaque; nothing is
                 checked, named or decoded
    send         Producer.send from 256 tasks
    16 tasks     the same from 16
    batched      the same from 256 tasks with automatic batching
    oneway       sends that nobody answers
    consume      what was sent, by a push consumer whose handler counts
    decode       records as a pull brings them, into messages; no broker

Kinds take turns. The best round of each is shown, but of ratios the median of the rounds counts: a
machine that is busy with other things then slows both sides alike.
``make bench-client BENCH="--rounds 5 --messages 50000"`` measures for longer.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, cast

from rocketpipe import Batching, ConsumeFromWhere, Producer, PushConsumer
from rocketpipe.client.consumer.received import ReceivedMessage, received
from rocketpipe.client.producer.sending.outgoing import Outgoing, template
from rocketpipe.model.host import Host
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.model.message import Message, StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.codec import encode_record
from rocketpipe.testing.servers import serving

TOPIC = "bench"
WINDOW = 256
BODY = bytes(128)
#: All of one width, so that the header's length does not change.
FIRST_OPAQUE = 1_000_000_000
OPAQUE = b'"opaque":'


class Bare(asyncio.Protocol):
    """The least that a client can do: write a frame, wait for the answer with its number."""

    def __init__(self, frame: bytes) -> None:
        number = OPAQUE + str(FIRST_OPAQUE).encode()
        before, _, self._after = frame.partition(number)
        self._before = before + OPAQUE
        self._opaque = FIRST_OPAQUE
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._pending = b""
        self._outbox: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)  # other loops have their own

    def data_received(self, data: bytes) -> None:
        data = self._pending + data if self._pending else data
        at, end = 0, len(data)
        while end - at >= 4:
            stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if stop > end:
                break
            found = data.index(OPAQUE, at) + len(OPAQUE)
            self._waiting.pop(int(data[found : found + 10])).set_result(None)
            at = stop
        self._pending = data[at:]

    async def send(self) -> None:
        self._opaque += 1
        answer = asyncio.get_running_loop().create_future()
        self._waiting[self._opaque] = answer
        self._outbox.append(b"%b%d%b" % (self._before, self._opaque, self._after))
        if len(self._outbox) == 1:
            asyncio.get_running_loop().call_soon(self._flush)
        await answer

    def _flush(self) -> None:
        self.transport.write(b"".join(self._outbox))
        self._outbox.clear()


class Rate(NamedTuple):
    """What was measured of one kind."""

    messages_s: float
    #: The client's own time, which other load on the machine changes less.
    cpu_us: float


async def rate(send: Callable[[], Awaitable[object]], tasks: int, messages: int) -> Rate:
    """Have messages sent by so many tasks that each wait for their answer."""
    left = messages

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await send()

    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(tasks)))
    spent = time.process_time() - cpu
    return Rate(messages / (time.perf_counter() - began), spent / messages * 1e6)


async def consume_rate(name_server: str, group: str, messages: int) -> Rate:
    """Have messages handled that are there already, from joining the group to the last of them."""
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer = PushConsumer(name_server, group=group, start=first)
    handled, enough = 0, asyncio.Event()

    @consumer.on(TOPIC)
    async def handle(message: ReceivedMessage) -> None:
        nonlocal handled
        handled += len(message.body) == len(BODY)
        if handled >= messages:
            enough.set()

    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    async with consumer:
        await enough.wait()
        spent = time.process_time() - cpu
        return Rate(handled / (time.perf_counter() - began), spent / handled * 1e6)


def decode_rate(messages: int) -> float:
    """Messages a second, from a pull's answer to a handler that looks at body and tag."""
    queue = MessageQueue(topic=TOPIC, broker_name="broker-a", queue_id=0)
    answer = b"".join(map(_record, range(32)))
    bodies = 0

    def handle(message: ReceivedMessage) -> None:
        nonlocal bodies
        assert message.tags == "paid"
        bodies += len(message.body)

    gc.collect()
    began = time.perf_counter()
    read = 0
    while read < messages:
        for message in received(answer, queue):
            handle(message)
            read += 1
    assert bodies == read * len(BODY)
    return read / (time.perf_counter() - began)


def _record(number: int) -> bytes:
    host = Host.parse("127.0.0.1:10911")
    key = UniqueKeys(bytes(4), 1, 1).next(1)
    return encode_record(
        StoredMessage(
            topic=TOPIC,
            body=BODY,
            raw_properties=f"TAGS\x01paid\x02UNIQ_KEY\x01{key}\x02WAIT\x01true\x02".encode(),
            queue_id=0,
            queue_offset=QueueOffset(number),
            log_offset=LogOffset(number * 300),
            born_ms=1,
            born_host=host,
            stored_ms=1,
            store_host=host,
        )
    )


async def run(name_server: str, broker: str, rounds: int, messages: int) -> None:
    rounds_of: dict[str, list[Rate]] = {}
    async with (
        Producer(name_server) as plain,
        Producer(name_server, batching=Batching()) as piling,
    ):
        await plain.send(TOPIC, BODY)  # creates the topic
        await plain.send(TOPIC, BODY)
        out = Outgoing(
            Message(TOPIC, BODY), UniqueKeys(bytes(4), 1, 1).next(1), time.time_ns() // 10**6, 4096
        )
        frame = out.frame(template(plain.group, TOPIC, "broker-a"), 0, FIRST_OPAQUE)
        host, _, port = broker.rpartition(":")
        loop = asyncio.get_running_loop()
        transport, bare = await loop.create_connection(lambda: Bare(frame), host, int(port))
        kinds: dict[str, tuple[Callable[[], Awaitable[object]], int]] = {
            "bare": (bare.send, WINDOW),
            "send": (lambda: plain.send(TOPIC, BODY), WINDOW),
            "16 tasks": (lambda: plain.send(TOPIC, BODY), 16),
            "batched": (lambda: piling.send(TOPIC, BODY), WINDOW),
            "oneway": (lambda: plain.send_oneway(TOPIC, BODY), 1),
        }
        for number in range(rounds):
            for name, (send, tasks) in kinds.items():
                measured = await rate(send, tasks, messages)
                rounds_of.setdefault(name, []).append(measured)
                print(f"round {number + 1}  {name:10} {measured.messages_s:10,.0f} messages/s")
            await plain.send(TOPIC, BODY, timeout_ms=60_000)  # what went oneway has been taken
            measured = await consume_rate(name_server, f"bench-{number}", messages)
            rounds_of.setdefault("consume", []).append(measured)
            print(f"round {number + 1}  {'consume':10} {measured.messages_s:10,.0f} messages/s")
        transport.close()
    report(rounds_of, max(decode_rate(messages) for _ in range(rounds)))


def report(rounds_of: dict[str, list[Rate]], decoded: float) -> None:
    def ratio(name: str, of: str) -> float:
        pairs = zip(rounds_of[name], rounds_of[of], strict=True)
        return statistics.median(one.messages_s / other.messages_s for one, other in pairs)

    print(f"\n{'':12}{'messages/s':>12}{'of bare':>10}{'of send':>10}{'client us':>12}")
    for name, rates in rounds_of.items():
        fastest = max(rate.messages_s for rate in rates)
        cpu_us = min(rate.cpu_us for rate in rates)
        ratios = f"{ratio(name, 'bare'):10.2f}{ratio(name, 'send'):10.2f}"
        print(f"{name:12}{fastest:12,.0f}{ratios}{cpu_us:12.1f}")
    print(f"{'decode':12}{decoded:12,.0f}")
    for name, of, least in (("send", "bare", 0.6), ("batched", "send", 2.0)):
        found = ratio(name, of)
        verdict = "" if found >= least else ": TOO SLOW"
        print(f"{name}, of {of}: {found:.2f}, wanted {least}{verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast our client is.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--uvloop", action="store_true", help="run the client on uvloop")
    options = parser.parse_args()
    loop_factory = None
    if options.uvloop:
        import uvloop

        loop_factory = uvloop.new_event_loop
    with tempfile.TemporaryDirectory() as scratch, serving(Path(scratch)) as servers:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(run(servers.name_server, servers.broker, options.rounds, options.messages))


if __name__ == "__main__":
    main()
