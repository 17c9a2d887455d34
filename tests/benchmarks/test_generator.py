"""The load generator against a broker of ours, and against a server that lies."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.broker.generator import (
    STREAM_TOPIC,
    TOPIC,
    Generator,
    RunFailed,
    Unavailable,
    compiled,
)
from benchmarks.broker.peers import PEERS
from benchmarks.broker.running import Pinning, Server, running, topic_of
from benchmarks.broker.scenarios import Kind, Scenario

from rocketpipe.protocol.requests.offsets import GetMaxOffset
from rocketpipe.remoting.caller import Caller

pytestmark = pytest.mark.scenario

QUEUES = 4
SECONDS = 0.2


def load(kind: Kind, **more: int) -> Scenario:
    settings = {"connections": 4, "window": 1, "body_bytes": 100, **more}
    return replace(Scenario(kind=kind, connections=1, window=1, body_bytes=1), **settings)


@pytest.fixture(scope="module")
def generator() -> Generator:
    try:
        return Generator(compiled())
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def server(generator: Generator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("broker")
    with running(PEERS["rocketpipe"](), directory, generator, Pinning(), sync=False) as server:
        server.fill([load("pop"), load("stream")], generator)
        yield server


def stored(server: Server, topic: str, queues: int = QUEUES) -> int:
    """How many messages a topic holds."""

    async def ask() -> int:
        async with Caller() as caller:
            return sum(
                [
                    (await caller.call(f"127.0.0.1:{server.port}", request)).offset
                    for request in (
                        GetMaxOffset(topic=topic, queue_id=number) for number in range(queues)
                    )
                ]
            )

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("kind", "arrives"), [("send", True), ("transaction", True), ("delay", False), ("timer", False)]
)
def test_what_is_counted_is_stored_and_shows_when_it_is_to(
    kind: Kind, arrives: bool, server: Server, generator: Generator
) -> None:
    before = stored(server, TOPIC)
    sample = server.measure(load(kind), generator, SECONDS, 0.0)
    assert sample.messages_s > 0
    counted = sample.messages_s * SECONDS
    assert (stored(server, TOPIC) - before >= 0.9 * counted) is arrives


@pytest.mark.parametrize("kind", ["pull", "pop", "popbatch"])
def test_what_is_read_comes_from_the_topic_of_its_size(
    kind: Kind, server: Server, generator: Generator
) -> None:
    before = stored(server, topic_of(load(kind)))
    assert server.measure(load(kind), generator, SECONDS, 0.0).messages_s > 0
    assert stored(server, topic_of(load(kind))) == before


def test_a_stream_reaches_every_group_at_its_rate(server: Server, generator: Generator) -> None:
    before = stored(server, STREAM_TOPIC)
    stream = replace(load("stream", window=100, groups=3), rate=200.0)
    sample = server.measure(stream, generator, SECONDS, 0.0)
    sent = stored(server, STREAM_TOPIC) - before
    assert sample.messages_s == pytest.approx(3 * sent / SECONDS, rel=0.5)
    assert 0 < sample.p50_ms <= sample.p99_ms <= sample.p999_ms


def test_sends_go_to_as_many_topics_as_there_are(server: Server, generator: Generator) -> None:
    server.measure(load("send", topics=3), generator, SECONDS, 0.0)
    counts = [stored(server, f"{TOPIC}{number:05}", queues=1) for number in range(3)]
    assert min(counts) > 0
    assert max(counts) - min(counts) <= 1


@contextmanager
def lying(answer: Callable[[int], tuple[str, bytes]]) -> Iterator[int]:
    """A server that answers requests by their code, with some fields and a body."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as incoming:
                while head := incoming.read(4):
                    frame = incoming.read(struct.unpack(">i", head)[0])
                    (code,) = re.findall(rb'"code":(\d+)', frame)
                    (opaque,) = re.findall(rb'"opaque":(\d+)', frame)
                    fields, body = answer(int(code))
                    text = f'{{{fields},"flag":1,"opaque":{opaque.decode()}}}'.encode()
                    frame = struct.pack(">ii", 4 + len(text) + len(body), len(text))
                    connection.sendall(frame + text + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
    thread.join(10)


PLACE = '"msgId":"7F00000100002A9F0000000000000000","queueOffset":"0"'


@pytest.mark.parametrize(
    ("kind", "lies", "complaint"),
    [
        ("send", lambda code: ('"code":1', b""), "refused"),
        ("pull", lambda code: ('"code":0,"offset":"64000"', b"no records"), "not the records"),
        ("pop", lambda code: ('"code":0', b"no records"), "not the records"),
        ("transaction", lambda code: ('"code":0', b""), "without a place"),
        (
            "transaction",
            lambda code: (f'"code":{int(code == 37)},{PLACE}', b""),
            "refused",
        ),
    ],
)
def test_a_wrong_answer_gives_no_figure(
    kind: Kind, lies: Callable[[int], tuple[str, bytes]], complaint: str, generator: Generator
) -> None:
    with lying(lies) as port, pytest.raises(RunFailed, match=complaint):
        generator.measure(
            load(kind, connections=1),
            port=port,
            protocol=kind,
            pid=os.getpid(),
            seconds=SECONDS,
            warmup_s=0.0,
        )
