"""Messages looked for by key and by place, in a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.broker.handlers import lookups
from rocketpipe.broker.handlers.lookups import LookupHandlers
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.lookups import QueryMessage, ViewMessageById
from rocketpipe.record.codec import view_records
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Router
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
START_MS = 1_700_000_000_000


class Broker:
    """A store, and what looks messages up in it."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock(START_MS)
        self.store = MessageStore.open(
            StoreConfig.embedded(root),
            disk=Disk(),
            clock=self.clock,
            store_host=HOST,
            threads=False,
        )
        self.router = Router(LookupHandlers(self.store))

    def put(self, keys: str, body: bytes = b"body", topic: str = "t", unique: str = "") -> Appended:
        properties = f"KEYS\x01{keys}\x02" + (f"UNIQ_KEY\x01{unique}\x02" if unique else "")
        put = Put(
            topic=topic,
            queue_id=0,
            body=body,
            properties=properties.encode(),
            flag=0,
            sys_flag=0,
            born_ms=1,
            born_host=HOST,
        )
        ((placed,),) = self.store.append([[put]])
        self.store.dispatch()
        return placed

    async def ask(self, request: Request[Any]) -> Command:
        peer = PeerConnection(self.router.answer, limits=ConnectionLimits())
        return await self.router.answer(to_command(request, 1), peer)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.store.close()


def query(key: str, **changes: Any) -> QueryMessage:
    values: dict[str, Any] = {
        "topic": "t",
        "max_num": 64,
        "begin_timestamp": 0,
        "end_timestamp": START_MS + 1_000_000,
    }
    return QueryMessage(key=key, **{**values, **changes})


def bodies(answer: Command) -> list[bytes]:
    assert answer.code == 0, answer.remark
    return [record.body for record in view_records(answer.body)]


async def test_the_newest_messages_with_a_key_come_first(broker: Broker) -> None:
    for number in range(3):
        last = broker.put(f"k{number} shared", b"%d" % number)
    broker.put("shared", b"elsewhere", topic="u")
    answer = await broker.ask(query("shared"))
    assert bodies(answer) == [b"2", b"1", b"0"]
    assert answer.fields["indexLastUpdatePhyoffset"] == str(last.log_offset)
    assert answer.fields["indexLastUpdateTimestamp"] == str(START_MS)
    assert bodies(await broker.ask(query("k1"))) == [b"1"]
    assert bodies(await broker.ask(query("shared", max_num=2))) == [b"2", b"1"]


async def test_a_key_with_the_same_hash_is_another_key(broker: Broker) -> None:
    broker.put("Aa", b"one")
    broker.put("BB", b"other")  # Java's classic: both hash alike
    assert bodies(await broker.ask(query("Aa"))) == [b"one"]
    assert bodies(await broker.ask(query("BB"))) == [b"other"]


async def test_a_span_of_time_is_kept_to(broker: Broker) -> None:
    for number in range(3):
        broker.put("k", b"%d" % number)
        await broker.clock.advance(10_000)
    span = {"begin_timestamp": START_MS + 10_000, "end_timestamp": START_MS + 19_999}
    assert bodies(await broker.ask(query("k", **span))) == [b"1"]
    later = {"begin_timestamp": START_MS + 30_000}
    assert (await broker.ask(query("k", **later))).code == 22


async def test_at_most_64_are_given_and_32_of_a_unique_key(broker: Broker) -> None:
    for _ in range(70):
        broker.put("k", unique="u")
    assert len(bodies(await broker.ask(query("k", max_num=1000)))) == 64
    assert len(bodies(await broker.ask(query("u", max_num=1000, unique_key=True)))) == 32
    assert len(bodies(await broker.ask(query("u", max_num=1, unique_key=True)))) == 32
    assert (await broker.ask(query("k", max_num=0))).code == 22
    assert (await broker.ask(query("k", max_num=-5))).code == 22


async def test_an_answer_is_no_longer_than_it_may_be_but_has_one_message(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "MAX_ANSWER_BYTES", 5000)
    for _ in range(5):
        broker.put("k", bytes(2000))
    assert len(bodies(await broker.ask(query("k")))) == 2
    broker.put("long", bytes(10_000))
    assert len(bodies(await broker.ask(query("long")))) == 1


async def test_what_is_not_there_is_not_found(broker: Broker) -> None:
    broker.put("k")
    for request in (query("other"), query("k", topic="u"), query("")):
        answer = await broker.ask(request)
        assert answer.code == 22
        assert answer.remark == "can not find message, maybe time range not correct"
    assert (await broker.ask(query("k", topic="../t"))).code == 29


async def test_a_message_is_given_by_its_place_in_the_log(broker: Broker) -> None:
    broker.put("a", b"first")
    second = broker.put("b", b"second")
    answer = await broker.ask(ViewMessageById(offset=second.log_offset))
    assert bodies(answer) == [b"second"]
    assert len(answer.body) == second.size


@pytest.mark.parametrize("offset", [-1, 1, 100, 1 << 40, (1 << 63) - 1])
async def test_a_place_where_no_message_starts_has_none(broker: Broker, offset: int) -> None:
    broker.put("a", bytes(1000))
    answer = await broker.ask(ViewMessageById(offset=LogOffset(offset)))
    assert answer.code == 1
    assert str(answer.remark).startswith(f"can not find message by the offset, {offset}")
