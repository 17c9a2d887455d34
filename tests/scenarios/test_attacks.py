"""What somebody with a few rights might try: each ends with a refusal, and with nothing done."""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.auth.any_request import any_request
from tests.scenarios.support.users import entries
from tests.scenarios.test_access_control import (
    ROOT,
    Place,
    exchange,
    place,
    pull,
    send,
    written,
)
from tests.waiting import until

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.errors import RequestRejected
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData
from rocketpipe.protocol.requests.lookups import ViewMessageById
from rocketpipe.protocol.requests.popping import BatchAckMessage, PollingInfo, PopMessage
from rocketpipe.protocol.requests.sending import SendReply
from rocketpipe.protocol.requests.staging import AskStages, CommitStages, StageMessages
from rocketpipe.protocol.requests.topics import UpdateAndCreateTopic
from rocketpipe.protocol.requests.transactions import EndTransaction
from rocketpipe.protocol.requests.users import (
    AclInfo,
    DeleteAcl,
    DeleteUser,
    PolicyEntryInfo,
    PolicyInfo,
    UpdateAcl,
    UpdateUser,
    UserInfo,
)
from rocketpipe.remoting.caller import Caller, split_address

__all__ = ["place"]

SIGNATURE = "Signature"
PREPARED, COMMITTED = 1 << 2, 2 << 2


def messages(place: Place, topic: str) -> int:
    """How many messages a topic has."""
    store = place.core.store
    return sum(
        store.max_offset(topic, queue_id) for name, queue_id in store.queues() if name == topic
    )


async def deny(place: Place, name: str, resource: str) -> None:
    entry = PolicyEntryInfo(resource=resource, actions=("All",), decision="Deny")
    acl = AclInfo(policies=(PolicyInfo(policy_type="Custom", entries=(entry,)),))
    for at in (place.broker, place.name_server):
        await place.ask(UpdateAcl(subject=f"User:{name}", acl=acl), ROOT, at)


# 3: what a header may be like


def raw(code: int, fields: str, body: bytes = b"") -> bytes:
    header = f'{{"code":{code},"language":"JAVA","version":475,"opaque":1,"flag":0,'.encode()
    header += f'"serializeTypeCurrentRPC":"JSON","extFields":{fields}}}'.encode(
        "utf-8", "surrogatepass"
    )
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


@pytest.mark.parametrize("characters", [0, 1, 27, 29, 56, 4096])
async def test_a_signature_of_another_length_is_none(place: Place, characters: int) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    await place.ask(send(), writer)
    for header in HeaderKind:
        command = writer.sign(to_command(send(), 1))
        good = command.fields[SIGNATURE]
        given = (good * 200)[:characters]
        fields = dict(command.fields) | {SIGNATURE: given}
        frame = encode_frame(replace(command, fields=fields, header=header))
        (answer,) = await exchange(place.broker, frame)
        assert answer.code == ResponseCode.NO_PERMISSION
    assert messages(place, "orders") == 1


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"AccessKey": "wr\u00efter"}, id="a name outside ASCII"),
        pytest.param({"AccessKey": "writer\ud800"}, id="half a surrogate pair"),
        pytest.param({"AccessKey": "writer\x00"}, id="a name that goes on behind a zero"),
        pytest.param({"AccessKey": " writer"}, id="a blank before"),
        pytest.param({"AccessKey": "WRITER"}, id="other letters"),
        pytest.param({"accessKey": "writer"}, id="another name of the field"),
        pytest.param({SIGNATURE: "\u00e4" * 28}, id="a signature outside ASCII"),
        pytest.param({SIGNATURE: "\ud800" * 28}, id="a signature of half pairs"),
        pytest.param({"SecurityToken": "x"}, id="a token"),
    ],
)
async def test_odd_names_are_nobody(place: Place, fields: dict[str, str]) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    await place.ask(send(), writer)
    command = writer.sign(to_command(send(), 1))
    whole = {**command.fields, **fields}
    if "accessKey" in fields:
        del whole["AccessKey"]
    for text in (json.dumps(whole), json.dumps(whole, ensure_ascii=False)):
        try:
            (answer,) = await exchange(place.broker, raw(310, text, command.body))
        except asyncio.IncompleteReadError:
            continue  # no text at all: the connection is over
        assert answer.code == ResponseCode.NO_PERMISSION
    assert messages(place, "orders") == 1


async def test_names_that_come_twice_in_other_places_are_not_believed(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    await place.ask(send(), writer)
    command = writer.sign(to_command(send(), 1))
    text = json.dumps(command.fields, separators=(",", ":"))
    other = text.replace('"b":"orders"', '"b":"secret"')
    for doubled in (
        raw(310, f'{text},"extFields":{other}', command.body),
        raw(310, f'{other},"extFields":{text}', command.body),
        raw(310, text[:-1] + ',"\\u0062":"secret"}', command.body),
        raw(310, '{"b":"secret",' + text[1:], command.body),
        raw(310, '{"AccessKey":"root",' + text[1:], command.body),
        raw(310, text[:-1] + ',"AccessKey":"root"}', command.body),
    ):
        await exchange(place.broker, doubled)
        assert messages(place, "secret") == 0
    assert place.core.tables.topics.get("secret") is None


async def test_bytes_that_move_between_fields_are_taken_as_what_they_say(place: Place) -> None:
    """The signature cannot tell: that is why the right counts of what is really asked."""
    writer = await place.user("writer", Topic="orders:Pub")
    await place.ask(send(), writer)
    command = writer.sign(to_command(send(), 1))
    fields = dict(command.fields)
    # Behind the group comes the topic: pg + orders is pgo + rders.
    moved = fields | {"a": fields["a"] + fields["b"][0], "b": fields["b"][1:]}
    (answer,) = await exchange(place.broker, encode_frame(replace(command, fields=moved)))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "Topic:rders" in (answer.remark or "")
    last = max(name for name in fields if name != SIGNATURE)
    into_body = replace(
        command,
        fields=fields | {last: fields[last][:-1]},
        body=fields[last][-1:].encode() + b"hello",
    )
    (answer,) = await exchange(place.broker, encode_frame(into_body))
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
    assert place.core.tables.topics.get("rders") is None


async def test_more_fields_than_a_header_may_have_are_refused_before_they_are_signed(
    place: Place,
) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    many = {f"x{number:05}": "1" for number in range(1100)}
    command = writer.sign(Command(code=310, opaque=1, fields=many))
    for header in HeaderKind:
        try:
            (answer,) = await exchange(place.broker, encode_frame(replace(command, header=header)))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            continue
        assert answer.code != ResponseCode.SUCCESS
    await place.ask(send(), writer)


# 4: what was granted a moment ago


@pytest.mark.parametrize("way", ["disabled", "deleted", "denied", "revoked", "rotated"])
async def test_what_changed_counts_for_the_next_request_on_an_open_connection(
    place: Place, way: str
) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    await place.ask(send(), writer)
    reader, out = await asyncio.open_connection(*split_address(place.broker))

    async def answered(frame: bytes) -> int:
        out.write(frame)
        head = await reader.readexactly(4)
        data = await reader.readexactly(struct.unpack(">i", head)[0])
        size = int.from_bytes(data[1:4], "big")
        return int(json.loads(data[4 : 4 + size])["code"])

    assert await answered(written(send(key="K1"), 1, writer)) == 0
    changed: dict[str, Request[Any]] = {
        "deleted": DeleteUser(username="writer"),
        "disabled": UpdateUser(username="writer", user=UserInfo(user_status="disable")),
        "revoked": DeleteAcl(subject="User:writer"),
        "rotated": UpdateUser(username="writer", user=UserInfo(password="another-secret-text")),
    }
    if way == "denied":
        await deny(place, "writer", "Topic:orders")
    else:
        await place.ask(changed[way], ROOT)
    # Once in the form that a fast path takes, once in one that the router has to read.
    assert await answered(written(send(key="K2"), 2, writer)) == 16
    binary = replace(writer.sign(to_command(send(key="K3"), 3)), header=HeaderKind.JSON)
    assert await answered(encode_frame(binary).replace(b'"opaque":3', b'"opaque":4')) == 16
    if way == "rotated":
        new = Credentials("writer", Secret("another-secret-text"))
        assert await answered(written(send(key="K4"), 5, new)) == 0
    out.close()
    await out.wait_closed()


@pytest.mark.parametrize("way", ["disabled", "deleted", "revoked"])
async def test_who_waits_for_messages_is_given_none_that_come_after_the_right_is_gone(
    place: Place, way: str
) -> None:
    reader = await place.user("reader", Topic="orders:Sub", Group="readers:Sub poppers:Sub")
    await place.ask(send(key="K1"), ROOT)
    pulling = replace(pull(offset=1), sys_flag=6, suspend_timeout_millis=30_000)
    popping: Any = replace(
        any_request(PopMessage),
        consumer_group="poppers",
        topic="orders",
        queue_id=-1,
        max_msg_nums=1,
        invisible_time=60_000,
        poll_time=30_000,
        born_time=place.core.clock.now_ms(),
        init_mode=1,
        exp_type=None,
        exp=None,
        order=None,
        attempt_id=None,
    )
    changed: dict[str, Request[Any]] = {
        "deleted": DeleteUser(username="reader"),
        "disabled": UpdateUser(username="reader", user=UserInfo(user_status="disable")),
        "revoked": DeleteAcl(subject="User:reader"),
    }
    polling = PollingInfo(consumer_group="poppers", topic="orders", queue_id=-1)

    async def both_wait() -> bool:
        asked = await place.ask(polling, ROOT)
        return bool(len(place.core.waiting) and asked.polling_num)

    async with Caller(sign=reader.sign) as caller, Caller(sign=reader.sign) as other:
        assert (await caller.call(place.broker, popping)).messages
        held = [
            asyncio.create_task(caller.call(place.broker, pulling, 60_000)),
            asyncio.create_task(other.call(place.broker, popping, 60_000)),
        ]
        while not await both_wait():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        await place.ask(changed[way], ROOT)
        await place.ask(send(key="K2"), ROOT)
        for each in held:
            with pytest.raises(RequestRejected) as error:
                await each
            assert error.value.code == ResponseCode.NO_PERMISSION


# 5: other ways to the same topic


@pytest.mark.parametrize(
    "topic", ["rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster", "SCHEDULE_TOPIC_XXXX"]
)
async def test_topics_that_brokers_keep_messages_in_are_no_way_to_others(
    place: Place, topic: str
) -> None:
    await place.ask(send("secret"), ROOT)
    mallory = await place.user("mallory", Topic="*:Pub,Sub", Group="*:Pub,Sub")
    await deny(place, "mallory", "Topic:secret")
    trick = replace(
        send(topic),
        properties="REAL_TOPIC\x01secret\x02REAL_QID\x010\x02TIMER_OUT_MS\x011\x02DELAY\x011\x02",
    )
    assert "Cluster:" in await place.refused(trick, mallory)
    for _ in range(2):
        answers = await exchange(place.broker, *(written(trick, n, mallory) for n in range(3)))
        assert {answer.code for answer in answers} == {16}
    assert "Cluster:" in await place.refused(pull(topic, "g"), mallory)
    assert messages(place, "secret") == 1


@pytest.mark.parametrize(
    "when", ["DELAY\x011\x02", "TIMER_DELAY_MS\x011\x02", "TRAN_MSG\x01true\x02"]
)
async def test_a_property_that_says_where_a_message_is_really_for_is_not_believed(
    place: Place, when: str
) -> None:
    await place.ask(send("secret"), ROOT)
    writer = await place.user("writer", Topic="orders:Pub")
    trick = send("orders")
    trick = replace(
        trick,
        properties=f"{trick.properties}{when}REAL_TOPIC\x01secret\x02REAL_QID\x010\x02PGROUP\x01pg\x02",
        sys_flag=PREPARED if "TRAN" in when else 0,
    )
    sent = await place.ask(trick, writer)
    if "TRAN" in when:
        await place.ask(
            EndTransaction(
                producer_group="pg",
                tran_state_table_offset=sent.queue_offset,
                commit_log_offset=int(sent.msg_id[16:], 16),
                commit_or_rollback=COMMITTED,
                msg_id=sent.msg_id,
                topic="orders",
            ),
            writer,
        )
    await until(lambda: messages(place, "orders") == 1)
    assert messages(place, "secret") == 1


async def test_a_timed_message_takes_back_none_that_is_anothers(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    due = f"TIMER_DELIVER_MS\x01{place.core.clock.now_ms() + 3000}\x02"
    theirs, trick = send("secret", key="THEIRS"), send("orders", key="MINE")
    taken_back = "TIMER_DEL_UNIQKEY\x01secret+THEIRS\x02TAGS\x01_RECALL_TAG_\x02"
    await place.ask(replace(theirs, properties=theirs.properties + due), ROOT)
    await place.ask(replace(trick, properties=trick.properties + due + taken_back), writer)
    await until(lambda: messages(place, "orders") == messages(place, "secret") == 1)


async def test_who_may_not_write_a_topic_does_not_end_its_transactions(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    half = replace(
        send(),
        properties="TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01K\x02",
        sys_flag=PREPARED,
    )
    sent = await place.ask(half, writer)
    other = await place.user("other", Topic="others:Pub")
    for topic in ("orders", "others", None):
        end = EndTransaction(
            producer_group="pg",
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=int(sent.msg_id[16:], 16),
            commit_or_rollback=COMMITTED,
            msg_id=sent.msg_id,
            topic=topic,
        )
        assert "Topic:orders" in await place.refused(end, other)
    view = ViewMessageById(offset=int(sent.msg_id[16:], 16))
    assert "Topic:orders" in await place.refused(view, other)


async def test_staged_sends_are_their_applications(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub", Group="mine:Pub")
    for kind in (StageMessages, CommitStages, AskStages):
        asked: Any = replace(any_request(kind), application="theirs", batch=0)
        assert "Group:theirs" in await place.refused(asked, writer)
    stage = replace(any_request(StageMessages, "secret"), application="mine")
    assert "Topic:secret" in await place.refused(stage, writer)


async def test_a_heartbeat_subscribes_to_nothing_that_is_forbidden(place: Place) -> None:
    await place.ask(send("secret"), ROOT)
    reader = await place.user("reader", Topic="orders:Sub", Group="readers:Sub")

    def beat(group: str, *topics: str) -> Heartbeat:
        wanted = tuple(Subscription(topic=topic, expression="*") for topic in topics)
        return Heartbeat(
            data=HeartbeatData(
                client_id="c", consumers=(ConsumerData(group_name=group, subscriptions=wanted),)
            )
        )

    assert "Topic:secret" in await place.refused(beat("readers", "orders", "secret"), reader)
    assert "Group:others" in await place.refused(beat("others"), reader)
    assert "Group:g2" in await place.refused(beat("readers", "%RETRY%g2"), reader)
    await place.ask(beat("readers", "orders", "%RETRY%readers"), reader)


async def test_no_way_to_pop_or_acknowledge_what_is_anothers(place: Place) -> None:
    reader = await place.user("reader", Topic="orders:Sub", Group="g1:Sub")
    pop: Any = any_request(PopMessage)
    for topic in ("secret", "%RETRY%g2", "%RETRY%g2+orders", "%RETRY%g2_orders", "%DLQ%g2"):
        refused = await place.refused(replace(pop, topic=topic, consumer_group="g1"), reader)
        assert "g2" in refused or "secret" in refused
    acks: Any = any_request(BatchAckMessage)
    (ack,) = acks.batch.acks
    mixed = tuple(
        msgspec.structs.replace(ack, topic=topic, consumer_group=group)
        for topic, group in (("orders", "g1"), ("secret", "g1"), ("orders", "g2"))
    )
    for pair in (mixed[:2], mixed[::2]):
        batch = msgspec.structs.replace(acks.batch, acks=pair)
        refused = await place.refused(replace(acks, batch=batch), reader)
        assert "secret" in refused or "g2" in refused


async def test_codes_that_the_original_forgot_need_rights(place: Place) -> None:
    await place.ask(send("secret"), ROOT)
    reader = await place.user("reader", Topic="orders:Sub", Group="readers:Sub")
    lite = replace(reader.sign(to_command(pull("secret"), 1)), code=361)
    (answer,) = await exchange(place.broker, encode_frame(lite))
    assert (answer.code, answer.body) == (16, b"")
    reply: Any = any_request(SendReply)
    for code in SendReply.codes:
        command = replace(reader.sign(to_command(reply, 1)), code=int(code))
        (answer,) = await exchange(place.broker, encode_frame(command))
        assert answer.code in (16, 1)
    create = UpdateAndCreateTopic(
        topic="mine", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6
    )
    assert "Topic:mine" in await place.refused(create, reader)


async def test_who_has_a_right_to_nothing_learns_of_no_message(place: Place) -> None:
    sent = await place.ask(send("secret"), ROOT)
    nobody = await place.user("nobody")
    offset = int(sent.msg_id[16:], 16)
    seen = []
    for place_in_log in range(max(offset - 3, 0), offset + 3):
        with pytest.raises(RequestRejected) as error:
            await place.ask(ViewMessageById(offset=place_in_log), nobody)
        seen.append(error.value.code)
    assert set(seen) == {ResponseCode.NO_PERMISSION}


async def test_an_operator_of_the_cluster_does_not_make_itself_more(place: Place) -> None:
    """Who may change the cluster may grant rights, but nobody is made Super by who is not."""
    operator = await place.user("operator", Cluster="*:All")
    raise_it = UpdateUser(username="operator", user=UserInfo(user_type="Super"))
    change_root = UpdateUser(username="root", user=UserInfo(password="a-secret-of-mine"))
    for asked in (raise_it, change_root):
        with pytest.raises(RequestRejected):
            await place.ask(asked, operator)
    writer = await place.user("writer", Topic="orders:Pub")
    granted = AclInfo(policies=(PolicyInfo(policy_type="Custom", entries=entries(Topic="*:All")),))
    await place.refused(UpdateAcl(subject="User:writer", acl=granted), writer)


async def test_two_users_of_one_connection_do_not_share_rights(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    nobody = await place.user("nobody")
    await place.ask(send(), writer)
    frames = [written(send(), number, writer if number % 2 else nobody) for number in range(10)]
    answers = await exchange(place.broker, *frames)
    assert [answer.code for answer in answers] == [16, 0] * 5
    async with Caller(sign=writer.sign) as caller:
        await caller.call(place.broker, send())
