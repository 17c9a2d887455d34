"""Peers that send damaged requests, bombs and pieces of frames: refused, and soon forgotten.

``ROCKETPIPE_HOSTILE_REQUESTS`` says how many damaged requests there are.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.support.raw_peers import (
    PATIENCE_S,
    PULL,
    QUEUE,
    SEND,
    Stranger,
    assert_quiet,
    both_servers,
    check,
    json_frame,
    resident_bytes,
    still_there,
)
from tests.fuzz.test_frames import damage, golden_frames
from tests.waiting import until

from rocketpipe.errors import RemoteProtocolError
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import MAX_FRAME_BYTES, encode_frame
from rocketpipe.record.batch import Entry, encode_batch

REQUESTS = int(os.environ.get("ROCKETPIPE_HOSTILE_REQUESTS", "20000"))
WARM_UP = 5_000
MOST_GROWTH = 20 << 20
A_BATCH = 100
AT_ONCE = 8

HEARTBEAT = (
    b'{"clientID":"c","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[{"groupName":"g",'
    b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":'
    b'"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{"topic":"t","subString":"a||b",'
    b'"tagsSet":["a","b"],"codeSet":[97,98],"subVersion":1,"expressionType":"TAG"}]}]}'
)
CLAIM = (
    b'{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"t","brokerName":"broker-a",'
    b'"queueId":0}]}'
)
TOPIC = {
    "topic": "t2",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}


def real_requests() -> list[bytes]:
    """What clients send to a broker, in either header form, and Java's own frames."""
    asked = [
        *[(RequestCode.SEND_MESSAGE, SEND, b"body")] * 4,
        (RequestCode.SEND_BATCH_MESSAGE, {**SEND, "batch": "true"}, batch_body()),
        *[(RequestCode.PULL_MESSAGE, PULL, b"")] * 4,
        (RequestCode.LITE_PULL_MESSAGE, PULL, b""),
        *[(code, QUEUE, b"") for code in (14, 15, 29, 30, 31, 32)],
        (RequestCode.HEART_BEAT, {}, HEARTBEAT),
        *[(code, {}, CLAIM) for code in (41, 42)],
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}, b""),
        (RequestCode.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "g"}, b""),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC, b""),
        *[(code, {"topic": "t"}, b"") for code in (202, 215, 351)],
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"g"}'),
        (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"}, b""),
        (
            RequestCode.CONSUMER_SEND_MSG_BACK,
            {"offset": "0", "group": "g", "delayLevel": "3", "originTopic": "t"},
            b"",
        ),
    ]
    ours = [
        encode_frame(
            Command(code=code, opaque=1, fields=fields, body=body, header=kind, version=477)
        )
        for code, fields, body in asked
        for kind in HeaderKind
    ]
    return ours * 3 + golden_frames()


def batch_body() -> bytes:
    return encode_batch(Entry(0, bytes([each]), b"TAGS\x01a\x02") for each in range(3))


class Listener(Stranger):
    """A stranger whose opaques are as damaged as the rest: its answers are counted."""

    heard = 0

    def data_received(self, data: bytes) -> None:
        for command in self._wire.receive(data):
            if command.is_response:
                check(command)
                self.heard += 1
        self._arrived.set()

    async def hears(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.heard < count:
                assert not self.closed.is_set(), f"closed after {self.heard} of {count} answers"
                self._arrived.clear()
                await self._arrived.wait()


class Batch:
    """Damaged requests for one connection: whole ones, and at most one that breaks it."""

    def __init__(self) -> None:
        self.whole: list[bytes] = []
        self.wanted = 0
        self.last = b""
        self.breaks = False

    def add(self, data: bytes) -> bool:
        """True if nothing can follow."""
        reader = Connection()
        try:
            commands = reader.receive(data)
        except RemoteProtocolError:
            commands = []
        self.breaks = reader.failure is not None
        if self.breaks or reader.buffered_bytes:
            self.last = data
            return True
        self.whole.append(data)
        self.wanted += sum(not (each.is_response or each.is_oneway) for each in commands)
        return False

    async def send(self, address: str) -> None:
        """Be answered in full, and then sent away if what follows is no frame."""
        listener = await Listener.at(address)
        listener.transport.write(b"".join(self.whole))
        await listener.hears(self.wanted)
        assert listener.heard == self.wanted
        listener.transport.write(self.last)
        if self.breaks:
            await listener.ended()
        await listener.close()


def batches(requests: int, chance: random.Random) -> Iterator[Batch]:
    """So many damaged requests; one in five, at most, is not even a frame any more."""
    frames = real_requests()
    batch = Batch()
    broken = made = 0
    while made < requests:
        data = damage(chance.choice(frames), chance)
        if not batch.add(data):
            made += 1
            if len(batch.whole) < A_BATCH:
                continue
        elif broken * 5 > made:
            batch.last, batch.breaks = b"", False  # there were enough of these
            continue
        else:
            made += 1
            broken += 1
        yield batch
        batch = Batch()


async def damaged(address: str, requests: int, chance: random.Random) -> int:
    """Send damaged requests, over several connections at once; how many wanted an answer."""
    waiting = batches(requests, chance)
    wanted = 0

    async def one() -> None:
        nonlocal wanted
        for batch in waiting:
            try:
                await batch.send(address)
            except (AssertionError, TimeoutError) as error:
                sent = [*batch.whole[-20:], batch.last]
                error.add_note("sent: " + " ".join(each.hex() for each in sent))
                raise
            wanted += batch.wanted

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(one())
    return wanted


@pytest.mark.parametrize(("which", "share"), [("broker", 1.0), ("name_server", 0.1)])
async def test_damaged_requests_are_answered_or_end_the_connection_and_leave_nothing_behind(
    which: str, share: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with both_servers(tmp_path, max_suspend_ms=10) as servers:
        address = getattr(servers, which)
        topic = await Stranger.at(address)
        await topic.ask([json_frame(RequestCode.SEND_MESSAGE, 1, SEND, body=b"x")], [1])
        await topic.close()
        await damaged(address, WARM_UP, random.Random(1))
        gc.collect()
        tasks, memory = len(asyncio.all_tasks()), resident_bytes()
        count = int(REQUESTS * share)
        understood = await damaged(address, count, random.Random(2))
        assert understood > count * 0.5, "too few reached a handler"
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        gc.collect()
        grown = (resident_bytes() or 0) - (memory or 0)
        assert grown < MOST_GROWTH, f"{grown >> 10} KB more"
        await still_there(servers)
    assert_quiet(caplog)


BOMBS = {
    "nested arrays": b"[" * 100_000,
    "nested arrays that end": b"[" * 100_000 + b"]" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "a long number": b'{"clientID":' + b"9" * 1_000_000 + b"}",
    "a number of 4,300 digits": b'{"clientID":"c","heartbeatFingerprint":' + b"9" * 4300 + b"}",
    "one key many times": b"{" + b'"clientID":"c",' * 30_000 + b'"clientID":"c"}',
    "a million keys": b"{" + b",".join(b'"%d":0' % each for each in range(1_000_000)) + b"}",
    "half a surrogate pair": b'{"clientID":"\\ud800"}',
    "no number": b'{"clientID":"c","heartbeatFingerprint":NaN}',
    "infinity": b'{"clientID":"c","heartbeatFingerprint":1e999}',
    "itself": b'{"clientID":{"$ref":"$"},"producerDataSet":[{"$ref":"$"}]}',
    "16 megabytes of blanks": b" " * (MAX_FRAME_BYTES - 1000),
    "zeros": bytes(1_000_000),
}


@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_bomb_is_refused_and_the_connection_goes_on(
    bomb: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    codes = [RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ]
    codes += [RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, RequestCode.CHECK_CLIENT_CONFIG]
    async with both_servers(tmp_path) as servers:
        stranger = await Stranger.at(servers.broker)
        memory = resident_bytes()
        for opaque, code in enumerate(codes):
            frame = json_frame(code, opaque, {}, body=BOMBS[bomb])
            answer = (await stranger.ask([frame], [opaque]))[opaque]
            if bomb != "one key many times":  # the last one counts, as at RocketMQ's
                assert answer.code != ResponseCode.SUCCESS
        grown = (resident_bytes() or 0) - (memory or 0)
        assert grown < 200 << 20, f"{grown >> 20} MB more"
        assert (await stranger.ask([json_frame(30, 9, QUEUE)], [9]))[9].code == 0
        await stranger.close()
    assert_quiet(caplog)


FRAMES_THAT_ARE_NONE = {
    "negative": struct.pack(">i", -1),
    "least": struct.pack(">i", -(1 << 31)),
    "nothing": struct.pack(">i", 0),
    "too short for its header": struct.pack(">ib", 3, 0) + bytes(2),
    "one byte too long": struct.pack(">i", MAX_FRAME_BYTES - 3),
    "greatest": struct.pack(">i", (1 << 31) - 1),
    "a header longer than the frame": struct.pack(">iI", 10, 100) + bytes(6),
    "a header of an unknown kind": struct.pack(">iI", 10, 7 << 24 | 6) + bytes(6),
    "a header that is no JSON": struct.pack(">iI", 10, 6) + b"nobody",
    "a binary header cut short": struct.pack(">iI", 10, 1 << 24 | 6) + bytes(6),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303") + bytes(240),
}


@pytest.mark.parametrize("which", ["broker", "name_server"])
async def test_what_is_no_frame_ends_its_own_connection_alone(
    which: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with both_servers(tmp_path) as servers:
        address = getattr(servers, which)
        other = await Stranger.at(address)
        asked = json_frame(RequestCode.GET_MIN_OFFSET, 1, QUEUE)
        for number, data in enumerate(FRAMES_THAT_ARE_NONE.values()):
            stranger = await Stranger.at(address)
            await stranger.ask([asked], [1])
            stranger.transport.write(data)
            await stranger.ended()
            await other.ask([json_frame(65_535, number, {})], [number])
        await other.close()
    assert_quiet(caplog)


async def test_pieces_of_a_frame_are_put_together_whatever_their_size(tmp_path: Path) -> None:
    frame = json_frame(RequestCode.SEND_MESSAGE, 1, SEND, body=b"body")
    async with both_servers(tmp_path) as servers:
        stranger = await Stranger.at(servers.broker)
        stranger.transport.get_extra_info("socket").setsockopt(6, 1, 1)  # no delay
        for at in range(len(frame)):
            stranger.transport.write(frame[at : at + 1])
            await asyncio.sleep(0)
        assert (await stranger.told([1]))[1].code == ResponseCode.SUCCESS
        await stranger.close()


async def test_halves_of_frames_that_are_left_behind_leave_nothing(tmp_path: Path) -> None:
    frame = json_frame(RequestCode.SEND_MESSAGE, 1, SEND, body=bytes(100_000))
    async with both_servers(tmp_path) as servers:
        tasks, memory = len(asyncio.all_tasks()), resident_bytes()
        for at in range(1, len(frame), 400):
            stranger = await Stranger.at(servers.broker)
            stranger.transport.write(frame[:at])
            await stranger.close()
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        grown = (resident_bytes() or 0) - (memory or 0)
        assert grown < MOST_GROWTH, f"{grown >> 10} KB more"
        await still_there(servers)
