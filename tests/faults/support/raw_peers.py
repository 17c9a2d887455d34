"""Strangers at a server's door: they write frames by hand, and look closely at what comes back."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import struct
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.clock import Clock
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.remoting.caller import split_address
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing.cluster import Cluster

ONEWAY: Final = 2
_BINARY: Final = 1 << 24

#: What an answer may never show: how the server is made, and where it lies on the disk.
_INSIDES: Final = re.compile(
    r"Traceback|\.py\b|line \d+, in|\b\w+(?:Error|Exception)\b|<class|object at 0x|rocketpipe\.|"
    r"log says why|/store/"
)


# Fields of requests that are in order.
SEND = {
    "producerGroup": "p",
    "topic": "t",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "1",
    "flag": "0",
    "properties": "TAGS\x01a\x02KEYS\x01k\x02",
    "reconsumeTimes": "0",
    "unitMode": "false",
}
PULL = {
    "consumerGroup": "g",
    "topic": "t",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "7",
    "commitOffset": "0",
    "suspendTimeoutMillis": "10",
    "subVersion": "0",
    "subscription": "*",
    "expressionType": "TAG",
}
QUEUE = {"topic": "t", "queueId": "0", "consumerGroup": "g", "commitOffset": "1", "timestamp": "1"}

#: One of these fits any field.
FIT = ["t", "g", "0", "1", "7", "true", "LOWER", "SINGLE_TAG"]


def json_frame(
    code: int, opaque: int, fields: Any = None, *, flag: int = 0, body: bytes = b""
) -> bytes:
    """A frame whose header is JSON; ``fields`` may be anything that JSON can say, or its text."""
    text = fields if isinstance(fields, str) else json.dumps(fields)
    header = (
        f'{{"code":{code},"extFields":{text},"flag":{flag},"language":"JAVA","opaque":{opaque},'
        '"serializeTypeCurrentRPC":"JSON","version":477}'
    ).encode()
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


def binary_fields(fields: Mapping[str, str]) -> bytes:
    """Header fields as a binary header has them."""
    return b"".join(
        struct.pack(f">h{len(name)}si{len(value)}s", len(name), name, len(value), value)
        for name, value in ((name.encode(), value.encode()) for name, value in fields.items())
    )


def binary_frame(
    code: int, opaque: int, block: bytes, *, flag: int = 0, body: bytes = b""
) -> bytes:
    """A frame whose header is binary, with fields as `binary_fields` writes them.

    Its code has 16 bits.
    """
    header = struct.pack(">hBhiiii", code, 0, 477, opaque, flag, 0, len(block)) + block
    head = struct.pack(">iI", 4 + len(header) + len(body), _BINARY | len(header))
    return head + header + body


class Stranger(asyncio.Protocol):
    """One connection, read as it is: answers by their opaque, and whether it was closed."""

    def __init__(self) -> None:
        self.answers: dict[int, Command] = {}
        self.closed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._wire = Connection()

    @classmethod
    async def at(cls, address: str) -> Self:
        loop = asyncio.get_running_loop()
        transport, stranger = await loop.create_connection(cls, *split_address(address))
        stranger.transport = transport
        return stranger

    transport: asyncio.Transport

    def data_received(self, data: bytes) -> None:
        for command in self._wire.receive(data):
            if command.is_response:
                assert command.opaque not in self.answers, "answered twice"
                self.answers[command.opaque] = command
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self._arrived.set()

    async def ask(self, frames: Iterable[bytes], opaques: Iterable[int]) -> dict[int, Command]:
        """Write frames, all at once, and wait for the answers; each is held to `check`.

        Frames that want none may be among them: the last of those with an opaque comes behind.
        """
        self.transport.write(b"".join(frames))
        return await self.told(opaques)

    async def told(self, opaques: Iterable[int]) -> dict[int, Command]:
        """Wait for the answers to what was written before."""
        missing = set(opaques)
        async with asyncio.timeout(PATIENCE_S):
            while missing := missing - self.answers.keys():
                assert not self.closed.is_set(), f"closed before {len(missing)} answers"
                self._arrived.clear()
                await self._arrived.wait()
        answers, self.answers = self.answers, {}
        for answer in answers.values():
            check(answer)
        return answers

    async def ended(self) -> None:
        """Wait until the server closes the connection."""
        async with asyncio.timeout(PATIENCE_S):
            await self.closed.wait()

    async def close(self) -> None:
        self.transport.abort()
        await self.closed.wait()


def check(answer: Command) -> None:
    """Hold an answer to what every answer owes, whatever was asked."""
    assert answer.is_response
    if answer.code != 0:
        assert answer.remark, f"refused with {answer.code}, and no word why"
    if answer.remark is not None:
        assert not _INSIDES.search(answer.remark), answer.remark
        assert len(answer.remark) < 4096, f"{len(answer.remark)} characters of remark"
    assert b"Traceback" not in answer.body


@asynccontextmanager
async def both_servers(
    data: Path, *, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Cluster]:
    """A NameServer and a broker in this process; all they keep is below ``data``."""
    names = NamesrvConfig(port=0, kv_path=data / "namesrv" / "kvConfig.json")
    async with name_server(names, clock=clock) as names_address:
        config = BrokerConfig(
            data=data / "store",
            name_servers=(names_address,),
            port=0,
            store=StoreConfig.embedded(data / "store"),
            **settings,
        )
        async with broker(config, clock=clock) as address:
            yield Cluster(names_address, address)


def resident_bytes() -> int | None:
    """How much memory this process has in use; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * 4096


async def served_codes(stranger: Stranger) -> list[int]:
    """Those of the codes that the server knows, by its own answers."""
    asked = [*range(1100), *range(2000, 2010), *range(200_050, 200_152)]
    frames = (json_frame(code, at, {}) for at, code in enumerate(asked))
    answers = await stranger.ask(frames, range(len(asked)))
    return [
        asked[opaque]
        for opaque, answer in answers.items()
        if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    ]


def fitting(row: Any, chance: random.Random) -> str:
    """A text that a field of its kind can be."""
    for text in chance.sample(FIT, len(FIT)):
        try:
            row.read(text)
        except ValueError:
            continue
        return text
    return "0"


async def still_there(servers: Cluster) -> None:
    """Both servers answer a newcomer."""
    for address in (servers.name_server, servers.broker):
        newcomer = await Stranger.at(address)
        answers = await newcomer.ask([json_frame(65_535, 1, {})], [1])
        assert answers[1].code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        await newcomer.close()


def assert_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """No handler failed in a way that it did not foresee."""
    failures = [
        record.getMessage() + (f": {record.exc_info[1]!r}" if record.exc_info else "")
        for record in caplog.records
        if record.exc_info or record.levelno >= logging.ERROR
    ]
    assert not failures, failures[:10]
