"""Who is let in, and what they may do."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.auth.conftest import FakePeer, credentials, granting, make_gate, user

from rocketpipe.auth.auditing.audit import AUDIT_LOGGER
from rocketpipe.auth.behalf import said_for
from rocketpipe.auth.failures import MAX_FROM_ADDRESS, MAX_ON_CONNECTION
from rocketpipe.auth.gate import Gate, host_of
from rocketpipe.auth.policy import Action, Entry, Part, Policy, Resource
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import UserStatus, UserType
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.hot import scan
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.brokers import UpdateBrokerConfig
from rocketpipe.protocol.requests.offsets import GetMinOffset
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.protocol.requests.topics import DeleteTopic
from rocketpipe.protocol.requests.users import (
    AclInfo,
    CreateAcl,
    CreateUser,
    DeleteUser,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
)
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import NotGuarded
from rocketpipe.testing.clock import ManualClock

SEND = SendMessage(
    producer_group="pg",
    topic="orders",
    default_topic="TBW102",
    default_topic_queue_nums=8,
    queue_id=0,
    sys_flag=0,
    born_timestamp=1,
    flag=0,
    properties="TAGS\x01a\x02",
    body=b"hello",
)
PULL = PullMessage(
    consumer_group="readers",
    topic="orders",
    queue_id=0,
    queue_offset=0,
    max_msg_nums=32,
    sys_flag=0,
    commit_offset=0,
    suspend_timeout_millis=0,
    sub_version=0,
)


def signed(request: Request[Any], by: str) -> Command:
    return credentials(by).sign(to_command(request, 1))


def refused(gate: Gate, command: Command, peer: PeerConnection) -> str:
    with pytest.raises(RequestRejected) as error:
        gate.admit(command, peer)
    assert error.value.code == ResponseCode.NO_PERMISSION
    return error.value.remark


def clears(gate: Gate, command: Command, peer: PeerConnection) -> bool:
    data = encode_frame(command)
    at = 8 + int.from_bytes(data[5:8], "big")
    return gate.cleared(data, [(0, at, len(data))], 0, peer) == 1


def test_a_good_signature_says_who_asks(gate: Gate, peer: PeerConnection) -> None:
    by = gate.admit(signed(SEND, "writer"), peer)
    assert by is not None
    assert (by.name, by.is_super, by.host) == ("writer", False, "10.0.0.7")
    assert gate.admit(signed(SEND, "root"), peer).is_super  # type: ignore[union-attr]


def test_who_is_unknown_disabled_or_signs_wrongly_is_told_the_same(
    gate: Gate, peer: PeerConnection
) -> None:
    wrong = signed(SEND, "writer")
    wrong = replace(wrong, fields={**wrong.fields, "b": "other"})
    stolen = signed(SEND, "reader")
    stolen = replace(stolen, fields={**stolen.fields, "AccessKey": "root"})
    commands = [signed(SEND, "unknown"), signed(SEND, "gone"), wrong, stolen]
    texts = {refused(gate, each, peer).partition(": ")[2] for each in commands}
    assert len(texts) == 1


@pytest.mark.parametrize("length", [0, 27, 29])
def test_a_signature_of_another_length_is_none(
    gate: Gate, peer: PeerConnection, length: int
) -> None:
    command = signed(SEND, "writer")
    command = replace(command, fields={**command.fields, "Signature": "x" * length})
    assert "none" in refused(gate, command, peer)
    assert not clears(gate, command, peer)


def test_a_name_without_a_signature_is_nobody(gate: Gate, peer: PeerConnection) -> None:
    plain = to_command(SEND, 1)
    assert "AccessKey" in refused(gate, plain, peer)
    refused(gate, replace(plain, fields={**plain.fields, "AccessKey": "root"}), peer)
    refused(gate, replace(plain, fields={**plain.fields, "AccessKey": ""}), peer)
    assert not clears(gate, plain, peer)


def test_a_token_is_refused(gate: Gate, peer: PeerConnection) -> None:
    command = replace(to_command(SEND, 1), fields={"SecurityToken": "x"})
    assert "SecurityToken" in refused(gate, credentials("root").sign(command), peer)


def test_the_code_is_not_signed_so_rights_are_asked_of_what_is_really_asked(
    gate: Gate, peer: PeerConnection
) -> None:
    swapped = replace(signed(GetMinOffset(topic="orders", queue_id=0), "reader"), code=215)
    by = gate.admit(swapped, peer)
    with pytest.raises(RequestRejected, match="no permission"):
        gate.allow(by, DeleteTopic(topic="orders"))


def test_what_is_not_granted_is_refused_with_who_and_what(gate: Gate, peer: PeerConnection) -> None:
    by = gate.admit(signed(SEND, "reader"), peer)
    with pytest.raises(RequestRejected) as error:
        gate.allow(by, SEND)
    assert error.value.remark == (
        "User:reader has no permission to access Topic:orders from 10.0.0.7, no matched policies "
        "(it takes Pub)."
    )
    gate.allow(gate.admit(signed(SEND, "writer"), peer), SEND)
    gate.allow(gate.admit(signed(SEND, "root"), peer), SEND)


def test_strangers_are_answered_where_that_is_wanted_and_nothing_else(
    peer: PeerConnection,
) -> None:
    gate = make_gate(open_codes=frozenset({105}))
    assert gate.admit(Command(code=105, opaque=1), peer) is None
    with pytest.raises(RequestRejected):
        gate.allow(None, GetMinOffset(topic="orders", queue_id=0))
    # To have been answered there opens nothing else, whatever name was said.
    gate.admit(Command(code=105, opaque=1), peer)
    named = {"AccessKey": "root", "Signature": "x" * 28}
    refused(gate, Command(code=25, opaque=2, fields=named), peer)


def test_two_users_of_one_connection_are_two(gate: Gate, peer: PeerConnection) -> None:
    assert clears(gate, signed(SEND, "writer"), peer)
    assert not clears(gate, signed(SEND, "reader"), peer)
    assert clears(gate, signed(PULL, "reader"), peer)
    assert not clears(gate, signed(PULL, "writer"), peer)


def test_a_frame_is_cleared_by_what_it_says_itself(gate: Gate, peer: PeerConnection) -> None:
    assert clears(gate, signed(SEND, "root"), peer)
    command = signed(SEND, "writer")
    assert clears(gate, command, peer)
    assert not clears(gate, replace(command, body=b"hellp"), peer)
    assert not clears(gate, replace(command, fields={**command.fields, "b": "orderz"}), peer)
    other = replace(SEND, topic="other")
    assert not clears(gate, signed(other, "writer"), peer)
    assert not clears(gate, signed(replace(PULL, consumer_group="g2"), "reader"), peer)


@pytest.mark.parametrize("change", ["disable", "delete", "policy", "rotate"])
def test_a_change_counts_from_the_next_request_on(
    gate: Gate, peer: PeerConnection, change: str
) -> None:
    command = signed(SEND, "writer")
    assert clears(gate, command, peer)
    match change:
        case "disable":
            gate.users.put(user("writer", status=UserStatus.DISABLE))
        case "delete":
            gate.users.remove("writer")
        case "policy":
            gate.policies.put(granting("writer", Topic="other:Pub"))
        case "rotate":
            gate.users.put(replace(user("writer"), secret=Secret("another-secret-1")))
    assert not clears(gate, command, peer)
    with pytest.raises(RequestRejected):
        gate.allow(gate.admit(command, peer), SEND)


async def test_an_old_secret_is_good_for_its_while(peer: PeerConnection) -> None:
    clock = ManualClock()
    gate = make_gate(clock)
    turned = user("writer").rotated(Secret("another-secret-1"), until_ms=clock.now_ms() + 1000)
    gate.users.put(turned)
    old = signed(SEND, "writer")
    assert clears(gate, old, peer)
    gate.admit(old, peer)
    await clock.advance(1000)
    assert not clears(gate, old, peer)
    refused(gate, old, peer)


def test_who_fails_too_often_loses_the_connection(gate: Gate) -> None:
    for _ in range(MAX_FROM_ADDRESS // MAX_ON_CONNECTION):
        peer = FakePeer()
        for _ in range(MAX_ON_CONNECTION):
            assert not peer.closed
            refused(gate, signed(SEND, "unknown"), cast("PeerConnection", peer))
        assert peer.closed
    # From then on the first failure from there does; a good login is as good as ever.
    peer = FakePeer()
    refused(gate, signed(SEND, "unknown"), cast("PeerConnection", peer))
    assert peer.closed
    gate.admit(signed(SEND, "writer"), cast("PeerConnection", FakePeer()))


def test_a_server_that_answers_what_nobody_said_the_needs_of_does_not_start(gate: Gate) -> None:
    class Unheard(Request[None]):
        codes = (RequestCode.WHO_CONSUME_THE_MESSAGE,)

    gate.check_served([SendMessage])
    with pytest.raises(NotGuarded, match="Unheard"):
        gate.check_served([SendMessage, Unheard])


def test_changes_refusals_and_logins_are_told(
    gate: Gate, peer: PeerConnection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOGGER)
    by = gate.admit(signed(SEND, "operator"), peer)
    gate.admit(signed(SEND, "operator"), peer)
    gate.allow(by, DeleteTopic(topic="orders"))
    gate.allow(by, UpdateBrokerConfig(properties=b"brokerPermission=6"))
    gate.allow(by, DeleteUser(username="bob"))
    entry = PolicyEntryInfo(resource="Topic:a", actions=("Pub",), decision="Allow")
    acl = AclInfo(subject="User:bob", policies=(PolicyInfo(entries=(entry,)),))
    gate.allow(by, CreateAcl(subject="User:carol", acl=acl))
    made = UserInfo(password="bobs-secret-text", user_type="Super")
    gate.allow(by, CreateUser(username="bob", user=made))
    gate.allow(by, SEND)
    with pytest.raises(RequestRejected):
        gate.allow(gate.admit(signed(SEND, "nobody"), peer), SEND)
    assert [line.partition(" from=10.0.0.7:5000 ")[2] for line in caplog.messages] == [
        "does=login result=allowed",
        "does=DeleteTopic on=Topic:orders result=allowed",
        "does=UpdateBrokerConfig on=Cluster:DefaultCluster result=allowed",
        'does=DeleteUser on="Cluster:DefaultCluster User:bob" result=allowed',
        'does=CreateAcl on="Cluster:DefaultCluster User:bob Topic:a" result=allowed',
        'does=CreateUser on="Cluster:DefaultCluster User:bob as:Super" result=allowed',
        "does=login result=allowed",
        'does=SendMessage on=Topic:orders result=refused reason="no matched policies"',
    ]


def test_hosts_of_addresses() -> None:
    assert host_of("10.0.0.7:5") == "10.0.0.7"
    assert host_of("[::1]:5") == "::1"
    assert host_of("unknown") == "unknown"


def test_who_is_unknown_and_who_signs_wrongly_take_the_same_work(gate: Gate) -> None:
    """Not timed, which would be chance here: the same number of hashes is made for either."""
    made: list[int] = []
    keys = gate._keys

    def counted(found: Any) -> Any:
        given = keys(found)
        made.append(len(given))
        return given

    gate._keys = counted  # type: ignore[method-assign]
    wrong = signed(SEND, "writer")
    wrong = replace(wrong, fields={**wrong.fields, "Signature": "A" * 28})
    for command in (signed(SEND, "unknown"), signed(SEND, "gone"), wrong, signed(SEND, "writer")):
        try:
            gate.admit(command, cast("PeerConnection", FakePeer()))
        except RequestRejected:
            continue
    assert made == [1, 1, 1, 1]


@pytest.mark.parametrize("who", ["unknown", "gone", "writer"])
def test_a_fast_path_does_the_same_work_for_whoever_it_does_not_clear(who: str) -> None:
    """With a long body the hash would tell who is known."""
    gate = make_gate()
    command = signed(SEND, who)
    fields = {**command.fields, "Signature": "A" * 28}
    data = encode_frame(replace(command, fields=fields))
    frames = scan(data, 0, len(data), 1 << 20)
    assert gate.cleared(data, frames, 0, cast("PeerConnection", FakePeer())) == 0
    signer = gate.signers.get(who) or gate.signer(who)
    assert signer.checks == 1


def test_who_is_let_in_no_more_may_not_what_they_could_a_moment_ago(
    gate: Gate, peer: PeerConnection
) -> None:
    by = gate.admit(signed(SEND, "writer"), peer)
    gate.allow_still(by, SEND)
    assert gate.may_publish(by, "orders")
    assert not gate.may_publish(by, "others")
    assert not gate.may_publish(None, "orders")
    gate.users.remove("writer")
    assert not gate.may_publish(by, "orders")
    with pytest.raises(RequestRejected, match="meanwhile"):
        gate.allow_still(by, SEND)


def limited_gate() -> Gate:
    """`writer` sends from one machine alone, which is neither the console's nor everybody's."""
    entry = Entry(
        resource=Resource.parse("Topic:orders"),
        actions=frozenset({Action.PUB}),
        sources=("10.1.0.0/16", "10.0.0.7"),
    )
    gate = make_gate(inner_secret=credentials("inner").secret)
    gate.policies.put(Policy(subject="User:writer", entries={Part.CUSTOM: (entry,)}))
    return gate


@pytest.mark.parametrize(
    ("console", "person", "sealed_by", "may"),
    [
        ("10.0.0.7", "10.1.2.3", None, True),
        ("10.0.0.7", "10.2.0.1", None, False),  # the console may, and the person may not
        ("10.9.9.9", "10.1.2.3", None, False),  # anybody could say so
        ("10.9.9.9", "10.1.2.3", "writer", False),  # by a secret of their own
        ("10.9.9.9", "10.1.2.3", "inner", True),
        ("10.0.0.7", "10.2.0.1", "inner", False),
        ("10.0.0.7", "not an address", None, False),
    ],
)
def test_sources_are_those_of_the_person_that_a_console_asks_for(
    console: str, person: str, sealed_by: str | None, may: bool
) -> None:
    gate = limited_gate()
    peer = cast("PeerConnection", FakePeer(f"{console}:5000"))
    secret = None if sealed_by is None else credentials(sealed_by).secret
    by = replace(credentials("writer"), said=said_for("writer", person, secret))
    command = by.sign(to_command(SEND, 1))
    assert not clears(gate, command, peer)  # a fast path knows the connection's address alone
    who = gate.admit(command, peer)
    assert who is not None
    assert gate.may_publish(who, "orders") is may
    if may:
        gate.allow(who, SEND)
    else:
        with pytest.raises(RequestRejected):
            gate.allow(who, SEND)


def test_a_seal_is_of_one_user_and_one_place() -> None:
    gate, peer = limited_gate(), cast("PeerConnection", FakePeer("10.9.9.9:5000"))
    inner = credentials("inner").secret
    for said in (
        said_for("reader", "10.1.2.3", inner),
        (("FromAddress", "10.1.2.3"), said_for("writer", "10.1.2.4", inner)[1]),
    ):
        by = gate.admit(replace(credentials("writer"), said=said).sign(to_command(SEND, 1)), peer)
        assert by is not None
        assert by.host == "10.9.9.9"
        assert not gate.may_publish(by, "orders")


def test_names_that_nobody_has_are_remembered_in_bounds_and_until_somebody_has_them(
    peer: PeerConnection,
) -> None:
    gate = make_gate()
    for number in range(3000):
        assert not clears(gate, signed(SEND, f"nobody-{number}"), peer)
    assert len(gate.signers) <= 1024
    assert not clears(gate, signed(SEND, "new"), peer)
    gate.users.put(user("new", type=UserType.SUPER))
    assert clears(gate, signed(SEND, "new"), peer)
