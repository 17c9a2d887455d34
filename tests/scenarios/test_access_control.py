"""Who is let in, on real ports: what strangers and users without rights can do is nothing."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.auth.any_request import any_request
from tests.scenarios.support.users import make_user
from tests.waiting import until

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.needs import NEEDS
from rocketpipe.auth.secret import Secret
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.client.consumer.push import PushConsumer
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.frame import bounds_at, decode_frame, encode_frame
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.clients import UnregisterClient
from rocketpipe.protocol.requests.lookups import ViewMessageById
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo, GetRouteInfoByTopic
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageBack
from rocketpipe.protocol.requests.topics import DeleteTopic, UpdateAndCreateTopic
from rocketpipe.protocol.requests.transactions import EndTransaction
from rocketpipe.protocol.requests.users import (
    DeleteUser,
)
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.store.config import StoreConfig

ROOT = Credentials("root", Secret("roots-secret-text"))
RETRY: dict[str, Any] = {
    "topic": "%RETRY%g2",
    "default_topic": "TBW102",
    "read_queue_nums": 1,
    "write_queue_nums": 1,
    "perm": 6,
}
FIRST = '{"username":"root","password":"roots-secret-text"}'
ITS_OWN = '{"accessKey":"inner","secretKey":"inner-secret-text"}'


@dataclass
class Place:
    """A guarded NameServer and broker."""

    name_server: str
    broker: str
    core: Core

    async def ask(self, request: Request[Any], by: Credentials | None, at: str = "") -> Any:
        async with Caller(sign=by.sign if by else None) as caller:
            return await caller.call(at or self.broker, request)

    async def refused(self, request: Request[Any], by: Credentials | None, at: str = "") -> str:
        with pytest.raises(RequestRejected) as error:
            await self.ask(request, by, at)
        assert error.value.code == ResponseCode.NO_PERMISSION
        return error.value.remark

    async def user(self, name: str, **rights: str) -> Credentials:
        """Make a user: ``Topic="orders:Pub"``."""
        return await make_user((self.broker, self.name_server), ROOT, name, **rights)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    told: dict[str, Any] = {
        "authentication": True,
        "init_user": FIRST,
        "inner_credentials": ITS_OWN,
        "port": 0,
    }
    cores: list[Core] = []
    async with name_server(NamesrvConfig(auth_directory=tmp_path / "ns", **told)) as namesrv:
        config = BrokerConfig(
            data=tmp_path / "data",
            name_servers=(namesrv,),
            store=StoreConfig.embedded(tmp_path / "data"),
            **told,
        )
        async with broker(config, watch=cores.append) as address:
            yield Place(namesrv, address, cores[0])


def send(topic: str = "orders", body: bytes = b"hello", key: str = "K1") -> SendMessage:
    return SendMessage(
        producer_group="pg",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=f"UNIQ_KEY\x01{key}\x02",
        body=body,
    )


def pull(topic: str = "orders", group: str = "readers", offset: int = 0) -> PullMessage:
    return PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )


async def exchange(address: str, *frames: bytes) -> list[Command]:
    """Write frames at once, and give the answers in the order of their numbers."""
    reader, writer = await asyncio.open_connection(*split_address(address))
    writer.write(b"".join(frames))
    answers = []
    try:
        for _ in frames:
            head = await reader.readexactly(4)
            data = head + await reader.readexactly(struct.unpack(">i", head)[0])
            bounds = bounds_at(data, 0, len(data))
            assert bounds is not None
            answers.append(decode_frame(data, bounds))
    finally:
        writer.close()
        await writer.wait_closed()
    return sorted(answers, key=lambda answer: answer.opaque)


def written(request: Request[Any], opaque: int, by: Credentials | None) -> bytes:
    command = to_command(request, opaque)
    return encode_frame(by.sign(command) if by else command)


async def test_strangers_are_answered_nothing_on_any_port_under_any_code(place: Place) -> None:
    for address in (place.name_server, place.broker):
        for code in [*map(int, RequestCode), 54, 99_999]:
            command = Command(code=code, opaque=1, fields={"topic": "TBW102"})
            try:
                (answer,) = await exchange(address, encode_frame(command))
            except asyncio.IncompleteReadError:
                continue  # after so many in vain, nothing is said any more
            assert answer.code == ResponseCode.NO_PERMISSION, code
    # And nobody else is the worse for it.
    assert (await place.ask(GetBrokerClusterInfo(), ROOT, place.name_server)).cluster_brokers


async def test_a_user_without_rights_is_refused_every_request(place: Place) -> None:
    nobody = await place.user("nobody")
    for address in (place.broker, place.name_server):
        async with Caller(sign=nobody.sign) as caller:
            for kind in NEEDS.keys() - {UnregisterClient}:
                with pytest.raises(RequestRejected) as error:
                    await caller.call(address, any_request(kind))
                unknown = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                assert error.value.code in (ResponseCode.NO_PERMISSION, unknown), kind
    assert [queue for queue in place.core.store.queues() if queue[0] == "orders"] == []


async def test_users_do_what_they_were_granted(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    reader = await place.user("reader", Topic="orders:Sub", Group="readers:Sub")
    assert (await place.ask(send(), writer)).queue_offset == 0
    assert "Topic:orders" in await place.refused(send(), reader)
    assert "Topic:other" in await place.refused(send("other"), writer)
    found = await place.ask(pull(), reader)
    assert found.next_begin_offset == 1
    assert "Group:readers" in await place.refused(pull(), writer)
    assert "Group:others" in await place.refused(pull(group="others"), reader)
    await place.ask(GetRouteInfoByTopic(topic="orders"), reader, place.name_server)
    await place.refused(GetRouteInfoByTopic(topic="other"), reader, place.name_server)
    await place.refused(DeleteTopic(topic="orders"), writer)


async def test_the_fast_path_takes_what_is_signed_and_nothing_else(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    await place.ask(send(), writer)  # what comes next is like it, and takes the fast path
    good = [written(send(key=f"G{number}"), number, writer) for number in range(8)]
    forged = written(send(body=b"forged"), 8, writer).replace(b"forged", b"FORGED")
    frames = [*good[:4], written(send(body=b"unsigned"), 9, None), *good[4:], forged]
    answers = await exchange(place.broker, *frames)
    assert [answer.code for answer in answers] == [0] * 8 + [16, 16]
    reader = await place.user("reader", Topic="orders:Sub", Group="readers:Sub")
    answers = await exchange(
        place.broker,
        written(pull(), 1, reader),
        written(pull(), 2, None),
        written(pull(), 3, writer),
        encode_frame(replace(reader.sign(to_command(pull(), 4)), code=361)),
    )
    assert [answer.code for answer in answers] == [0, 16, 16, 0]
    assert b"forged" not in answers[0].body.lower()
    assert b"unsigned" not in answers[0].body


async def test_lanes_and_router_answer_alike(place: Place) -> None:
    """The same sends once as the fast path takes them and once in a form that it leaves alone."""
    writer = await place.user("writer", Topic="orders:Pub")
    reader = await place.user("reader", Topic="orders:Sub", Group="readers:Sub")
    await place.ask(send(), writer)
    for body in (b"x", b"y" * 5000, "ä".encode() * 100):
        plain = written(send(body=body), 1, writer)
        spaced = encode_frame(writer.sign(to_command(send(body=body), 2)))
        at = 8 + int.from_bytes(spaced[5:8], "big")
        header = spaced[8:at].replace(b'"extFields":', b'"extFields" : ')
        spaced = (
            (4 + len(header) + len(body)).to_bytes(4, "big")
            + len(header).to_bytes(4, "big")
            + header
            + body
        )
        one, other = await exchange(place.broker, plain, spaced)
        assert (one.code, other.code) == (0, 0)
        assert one.fields.keys() == other.fields.keys()
    answer, *_ = await exchange(place.broker, written(pull(), 1, reader))
    assert answer.code == 0
    assert int(answer.fields["nextBeginOffset"]) == 7


async def test_what_changes_counts_at_once_in_the_fast_path_too(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    await place.ask(send(), writer)
    async with Caller(sign=writer.sign) as caller:
        await caller.call(place.broker, send(key="K2"))
        await place.ask(DeleteUser(username="writer"), ROOT)
        with pytest.raises(RequestRejected, match="User:writer"):
            await caller.call(place.broker, send(key="K3"))


async def test_whose_message_it_is_counts_and_not_what_is_said_of_it(place: Place) -> None:
    writer = await place.user("writer", Topic="secret:Pub")
    sent = await place.ask(send("secret"), writer)
    offset = int(sent.msg_id[16:], 16)
    reader = await place.user("reader", Topic="orders:Sub", Group="readers:Sub")
    view = ViewMessageById(offset=offset, topic="orders")
    assert "Topic:secret" in await place.refused(view, reader)
    assert "Topic:secret" in await place.refused(replace(view, topic=None), reader)
    # Sent back to the reader's own group it would come to it from its retry topic.
    back = SendMessageBack(offset=offset, group="readers", delay_level=0, origin_topic="orders")
    assert "Topic:secret" in await place.refused(back, reader)
    end = EndTransaction(
        producer_group="pg",
        tran_state_table_offset=0,
        commit_log_offset=offset,
        commit_or_rollback=8,
        msg_id="x",
        topic="orders",
    )
    assert "Topic:secret" in await place.refused(end, await place.user("w2", Topic="orders:Pub"))


async def test_retry_topics_are_their_groups(place: Place) -> None:
    await place.ask(UpdateAndCreateTopic(**RETRY), ROOT)
    reader = await place.user("reader", Topic="orders:Sub", Group="g1:Sub")
    assert "Group:g2" in await place.refused(pull("%RETRY%g2", "g1"), reader)
    trick = replace(send("%RETRY%g2"), producer_group="g1")
    assert "Group:g2" in await place.refused(trick, reader)
    assert "Group:g2" in await place.refused(pull("%DLQ%g2", "g1"), reader)


async def test_captured_bytes_are_good_again_and_for_no_other_right(place: Place) -> None:
    """A signature has no time in it: only TLS keeps others from hearing one."""
    writer = await place.user("writer", Topic="orders:Pub")
    heard = written(send(), 1, writer)
    for _ in range(2):
        (answer,) = await exchange(place.broker, heard)
        assert answer.code == 0
    other = heard.replace(b'"code":310', b'"code":215')
    (answer,) = await exchange(place.broker, other)
    assert answer.code != 0


async def test_odd_frames_are_refused_or_taken_as_what_they_are(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    await place.ask(send(), writer)
    command = writer.sign(to_command(send(), 1))
    twice = encode_frame(command).replace(b'"b":"orders"', b'"b":"orders","b":"secret"')
    twice = (
        (len(twice) - 4).to_bytes(4, "big")
        + (len(twice) - 8 - len(command.body)).to_bytes(4, "big")
        + twice[8:]
    )
    many = writer.sign(
        Command(code=310, opaque=2, fields={f"x{number}": "1" for number in range(1022)})
    )
    binary = replace(command, opaque=3, header=HeaderKind.BINARY)
    wrong = replace(binary, opaque=4, body=b"other")
    padded = writer.sign(replace(to_command(send(), 5), fields=dict(command.fields) | {"e": "000"}))
    renumbered = replace(padded, opaque=6, fields=dict(padded.fields) | {"e": "0"})
    answers = await exchange(
        place.broker, twice, *map(encode_frame, (many, binary, wrong, padded, renumbered))
    )
    assert [answer.code for answer in answers] == [16, 1, 0, 16, 0, 16]
    assert place.core.tables.topics.get("secret") is None


async def test_no_answer_and_no_line_has_a_secret(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    operator = await place.user("operator", Cluster="*:All")
    for address in (place.broker, place.name_server):
        for kind in NEEDS:
            if kind.__name__ in ("ExchangeHaInfo", "DeleteUser", "LeadAnyway"):
                continue
            for by in (operator, ROOT):
                answers = await exchange(address, written(any_request(kind), 1, by))
                for answer in answers:
                    assert b"secret-" not in answer.body, kind
                    assert "secret-" not in f"{answer.fields} {answer.remark}", kind
    assert "secret-text" not in caplog.text
    assert "the-secret-of" not in caplog.text


async def test_a_broker_without_credentials_is_not_registered(place: Place, tmp_path: Path) -> None:
    foreign = BrokerConfig(
        data=tmp_path / "foreign",
        name="foreign",
        name_servers=(place.name_server,),
        port=0,
        store=StoreConfig.embedded(tmp_path / "foreign"),
    )
    async with broker(foreign):
        told = (await place.ask(GetBrokerClusterInfo(), ROOT, place.name_server)).cluster_brokers
        assert set(told.brokers) == {"broker-a"}


async def test_a_push_consumer_with_a_name_gets_each_message_once_and_keeps_its_place(
    place: Place,
) -> None:
    await place.ask(UpdateAndCreateTopic(**RETRY | {"topic": "orders"}), ROOT)
    for number in range(5):
        await place.ask(send(body=b"%d" % number, key=f"K{number}"), ROOT)
    who = await place.user("reads", Topic="orders:Sub", Group="readers:Sub")
    got: list[bytes] = []
    session = Session(place.name_server, access_key=who.access_key, secret_key=who.secret.reveal())
    async with session:
        for count in (5, 6):
            consumer = PushConsumer(session, group="readers", start="first")

            @consumer.on("orders")
            async def take(message: ReceivedMessage) -> None:
                got.append(message.body)

            async with consumer:
                await until(lambda count=count: len(got) >= count)
                if count == 5:
                    await place.ask(send(body=b"5", key="K5"), ROOT)
                    await until(lambda: len(got) >= 6)
    assert got == [b"%d" % number for number in range(6)]
