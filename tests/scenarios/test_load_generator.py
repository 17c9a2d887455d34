"""The benchmark's load generator: what it sends is what Java sends, and what it counts is true."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from benchmarks.broker.generator import Generator, RunFailed, Unavailable, compiled
from benchmarks.broker.scenarios import Scenario

from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.model import properties
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.record.batch import decode_batch
from rocketpipe.record.codec import RecordView
from rocketpipe.remoting.caller import split_address
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario

READ_TIMEOUT_S = 60
LOAD = Scenario(kind="pull", connections=8, window=1, body_bytes=100)
ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "protocol" / "golden" / "frames-5.3.3.json"


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    try:
        return Generator(compiled(tmp_path_factory.mktemp("build")))
    except Unavailable as reason:
        pytest.skip(str(reason))


def port_of(address: str) -> int:
    return split_address(address)[1]


@asynccontextmanager
async def answering(answer: Callable[[Command], bytes]) -> AsyncIterator[int]:
    """A server that answers as it is told; the block is given its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Connection()
        try:
            while data := await reader.read(65536):
                for command in wire.receive(data):
                    writer.write(answer(command))
        except ConnectionResetError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def accepted(command: Command, **changes: int) -> bytes:
    return encode_frame(Command(**{"code": 0, "flag": 1, "opaque": command.opaque, **changes}))


async def read_all(name_servers: str, topic: str, wanted: int) -> list[RecordView]:
    found: list[RecordView] = []
    async with PullConsumer(name_servers, group="reader") as consumer:
        await consumer.subscribe(topic)
        async with asyncio.timeout(READ_TIMEOUT_S):
            while len(found) < wanted:
                found += await consumer.poll()
    return found


@pytest.mark.parametrize("protocol", ["send", "batch"])
async def test_a_broker_stores_what_is_sent_each_message_with_a_key_of_its_own(
    tmp_path: Path, generator: Generator, protocol: str
) -> None:
    async with cluster(tmp_path) as servers:
        await asyncio.to_thread(
            generator.send, port_of(servers.broker), protocol, 320, body_bytes=1024, connections=4
        )
        messages = await read_all(servers.name_server, "BenchTopic", 320)
    assert {message.queue_id for message in messages} == {0, 1, 2, 3}
    assert {len(message.body) for message in messages} == {1024}
    keys = [message.properties[properties.UNIQ_KEY] for message in messages]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32}
    assert {message.properties[properties.TAGS] for message in messages} == {
        "TagA",
        "TagB",
        "TagC",
        "TagD",
    }
    assert {message.properties[properties.WAIT] for message in messages} == {"true"}


async def test_connections_are_spread_over_all_brokers(generator: Generator) -> None:
    seen = [0, 0]

    def taking(number: int) -> Callable[[Command], bytes]:
        def take(command: Command) -> bytes:
            seen[number] += 1
            return accepted(command)

        return take

    async with answering(taking(0)) as first, answering(taking(1)) as second:
        await asyncio.to_thread(generator.send, [first, second], "send", 400, connections=4)
    assert sum(seen) == 400
    assert min(seen) > 0


async def test_a_send_has_the_header_that_java_writes(generator: Generator) -> None:
    frames: list[Command] = []

    def keep(command: Command) -> bytes:
        frames.append(command)
        return accepted(command)

    async with answering(keep) as port:
        await asyncio.to_thread(generator.send, port, "send", 5)
        await asyncio.to_thread(generator.send, port, "batch", 32)
    (row,) = (
        row
        for row in json.loads(GOLDEN.read_text())["frames"]
        if row["name"].startswith("a send with letters") and row["header"] == "JSON"
    )
    (java,) = Connection().receive(bytes.fromhex(row["hex"]))
    *sends, batch = frames
    # Java leaves "l" out where the topic is none of retries.
    wanted = {name: value for name, value in java.fields.items() if name != "l"}
    for command in frames:
        assert list(command.fields) == list(wanted)
        assert (command.version, command.language) == (java.version, java.language)
        assert {command.fields[name] for name in "fhj"} == {"0"}
    assert {command.code for command in sends} == {RequestCode.SEND_MESSAGE_V2}
    assert batch.code == RequestCode.SEND_BATCH_MESSAGE
    assert (sends[0].fields["m"], batch.fields["m"]) == ("false", "true")
    assert len(list(decode_batch(batch.body))) == 32


async def test_pulls_read_what_a_topic_holds_and_the_server_is_measured(
    tmp_path: Path, generator: Generator
) -> None:
    async with cluster(tmp_path) as servers:
        port = port_of(servers.broker)
        await asyncio.to_thread(generator.send, port, "batch", 1280)
        sample = await asyncio.to_thread(
            generator.measure, LOAD, port=port, protocol="pull", pid=os.getpid(), seconds=0.1
        )
    assert sample.messages_s > 0
    assert sample.cpu_us > 0


@pytest.mark.parametrize("protocol", ["pop", "popbatch"])
async def test_pops_are_acknowledged_to_the_last_and_begin_anew_with_another_group(
    tmp_path: Path, generator: Generator, protocol: str
) -> None:
    async with cluster(tmp_path) as servers:
        port = port_of(servers.broker)
        await asyncio.to_thread(generator.send, port, "batch", 256)
        sample = await asyncio.to_thread(
            generator.measure, LOAD, port=port, protocol=protocol, pid=os.getpid(), seconds=0.3
        )
    assert sample.messages_s > 0


async def test_an_empty_topic_cannot_be_pulled_from(tmp_path: Path, generator: Generator) -> None:
    async with cluster(tmp_path) as servers:
        port = port_of(servers.broker)
        await asyncio.to_thread(generator.send, port, "send", 1)
        with pytest.raises(RunFailed, match="too few to pull 32"):
            await asyncio.to_thread(generator.send, port, "pull", 32)


async def test_a_refused_message_fails_the_run_with_the_brokers_reason(
    tmp_path: Path, generator: Generator
) -> None:
    async with cluster(tmp_path) as servers:
        with pytest.raises(RunFailed, match=r'refused: .*"code":29'):
            await asyncio.to_thread(
                generator.send, port_of(servers.broker), "send", 10, topic="not a topic"
            )


async def test_one_wrong_answer_among_many_fails_the_run(generator: Generator) -> None:
    seen = 0

    def answer(command: Command) -> bytes:
        nonlocal seen
        seen += 1
        return accepted(command, code=1 if seen == 50 else 0)

    async with answering(answer) as port:
        with pytest.raises(RunFailed, match="refused"):
            await asyncio.to_thread(generator.send, port, "send", 100)


async def test_an_answer_to_another_request_fails_the_run(generator: Generator) -> None:
    def answer(command: Command) -> bytes:
        return accepted(command, opaque=command.opaque + 1) + accepted(command)

    async with answering(answer) as port:
        with pytest.raises(RunFailed, match="an answer to nothing"):
            await asyncio.to_thread(generator.send, port, "send", 10)


async def test_requests_of_the_broker_itself_are_no_answers(generator: Generator) -> None:
    def answer(command: Command) -> bytes:
        notice = Command(code=40, flag=2, opaque=command.opaque)
        return encode_frame(notice) + accepted(command)

    async with answering(answer) as port:
        await asyncio.to_thread(generator.send, port, "send", 10)


async def test_bytes_that_are_no_answer_fail_the_run(generator: Generator) -> None:
    async with answering(lambda command: b"\x00\x00\x00\x01junk") as port:
        with pytest.raises(RunFailed, match="not a RocketMQ answer"):
            await asyncio.to_thread(generator.send, port, "send", 10)


async def test_the_benchmark_measures_our_servers_and_writes_its_report(
    tmp_path: Path, generator: Generator
) -> None:
    report = tmp_path / "reports" / "bench.md"
    command = ["-m", "benchmarks.broker", "--peers", "rocketpipe", "--report", str(report)]
    command += ["--scenarios", "send-16x1-100,sync-1x1-*", "--seconds", "0.1", "--rounds", "2"]
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await child.communicate()
    assert child.returncode == 0, said.decode()
    text = report.read_text()
    assert text in said.decode()
    assert "| sends, 16 x 1, 100 B " in text
    assert "| sends, 1 x 1, 1 KB, on disk " in text
    assert "failed" not in text
    runs = json.loads(report.with_suffix(".json").read_text())["runs"]
    assert [(run["scenario"], len(run["samples"])) for run in runs] == [
        ("send-16x1-100", 2),
        ("sync-1x1-1024", 2),
    ]
