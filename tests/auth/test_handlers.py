"""Users and rights, asked about and changed."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
from tests.auth.conftest import credentials, granting, make_gate

from rocketpipe.auth.gate import Gate
from rocketpipe.auth.handlers import PlainAclHandlers, UserHandlers
from rocketpipe.auth.policy import Decision, Part
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.protocol.requests.users import (
    AclInfo,
    CreateAcl,
    CreateUser,
    DeleteAcl,
    DeletePlainAccount,
    DeleteUser,
    GetAcl,
    GetPlainAclVersion,
    GetUser,
    ListAcls,
    ListUsers,
    PolicyEntryInfo,
    PolicyInfo,
    UpdateAcl,
    UpdateGlobalWhiteAddresses,
    UpdatePlainAccount,
    UpdateUser,
    UserInfo,
)
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Router

ReplyT = TypeVar("ReplyT")
CAROL = CreateUser(username="carol", user=UserInfo(password="carols-secret", user_type="Normal"))


class Server:
    def __init__(self, gate: Gate, peer: PeerConnection) -> None:
        self.gate, self.peer = gate, peer
        users = UserHandlers(gate)
        self.router = Router(
            users, PlainAclHandlers(users, "broker-a", "127.0.0.1:1", "c"), guard=gate
        )

    async def ask(self, request: Request[ReplyT], by: str = "root") -> ReplyT:
        command: Command = credentials(by).sign(to_command(request, 1))
        return read_reply(request, await self.router.answer(command, self.peer))

    async def refused(self, request: Request[Any], by: str = "root") -> int:
        with pytest.raises(RequestRejected) as error:
            await self.ask(request, by)
        return error.value.code


@pytest.fixture
def server(peer: PeerConnection) -> Server:
    return Server(make_gate(), peer)


async def test_a_user_is_made_told_of_changed_and_removed(server: Server) -> None:
    await server.ask(CAROL)
    told = (await server.ask(GetUser(username="carol"))).user
    assert told == UserInfo(
        username="carol", password="******", user_type="Normal", user_status="enable"
    )
    assert told is not None
    # What a dashboard was shown, sent back.
    await server.ask(UpdateUser(username="carol", user=told))
    kept = server.gate.users.get("carol")
    assert kept is not None
    assert kept.secret.reveal() == "carols-secret"
    await server.ask(UpdateUser(username="carol", user=UserInfo(user_status="disable")))
    assert (await server.ask(ListUsers(filter="car"))).users is not None
    await server.ask(DeleteUser(username="carol"))
    await server.ask(DeleteUser(username="carol"))
    assert (await server.ask(GetUser(username="carol"))).user is None
    assert (await server.ask(ListUsers(filter="carol"))).users is None


async def test_what_cannot_be_a_user_is_refused(server: Server) -> None:
    await server.ask(CAROL)
    await server.ask(CAROL)  # who was not answered asks again
    other = CreateUser(username="carol", user=UserInfo(password="another-secret"))
    assert await server.refused(other) == 16
    assert await server.refused(UpdateUser(username="dave", user=UserInfo())) == 16
    for name, user in (
        ("", UserInfo(password="long-enough")),
        ("x", UserInfo(password="******")),
        ("x", UserInfo(password="short")),
        ("x", UserInfo()),
        ("x", UserInfo(password="long-enough", user_type="King")),
    ):
        assert await server.refused(CreateUser(username=name, user=user)) == 29


async def test_only_who_may_do_everything_makes_and_changes_those_who_may(server: Server) -> None:
    king = UserInfo(password="kings-secret", user_type="Super")
    assert await server.refused(CreateUser(username="king", user=king), "operator") == 1
    await server.ask(CAROL, "operator")
    promoted = UserInfo(user_type="Super")
    assert await server.refused(UpdateUser(username="carol", user=promoted), "operator") == 1
    changed = UserInfo(password="another-secret")
    assert await server.refused(UpdateUser(username="root", user=changed), "operator") == 16
    assert await server.refused(DeleteUser(username="root"), "operator") == 16
    for request in (CAROL, DeleteUser(username="reader"), GetUser(username="root"), ListUsers()):
        assert await server.refused(request, "writer") == 16


async def test_the_last_who_may_do_everything_stays(server: Server) -> None:
    assert await server.refused(DeleteUser(username="root")) == 16
    for info in (UserInfo(user_type="Normal"), UserInfo(user_status="disable")):
        assert await server.refused(UpdateUser(username="root", user=info)) == 16
    king = UserInfo(password="kings-secret", user_type="Super")
    await server.ask(CreateUser(username="king", user=king))
    server.gate.inner_user = "king"  # nobody logs in as the one by which servers ask each other
    assert await server.refused(DeleteUser(username="root")) == 16
    off = UserInfo(user_status="disable")
    for request in (DeleteUser(username="king"), UpdateUser(username="king", user=off)):
        assert await server.refused(request) == 16
    server.gate.inner_user = ""
    await server.ask(DeleteUser(username="root"))


def policies(*resources: str, part: str = "Custom", decision: str = "Allow") -> Any:
    entries = tuple(
        PolicyEntryInfo(resource=each, actions=("Pub",), decision=decision) for each in resources
    )
    return (PolicyInfo(policy_type=part, entries=entries),)


async def test_rights_are_granted_told_of_and_taken_back(server: Server) -> None:
    await server.ask(CAROL)
    grant = AclInfo(subject="User:carol", policies=policies("Topic:a", "Topic:b"))
    await server.ask(CreateAcl(subject="User:ignored", acl=grant))
    deny = AclInfo(policies=policies("Topic:b", decision="Deny"))
    await server.ask(UpdateAcl(subject="User:carol", acl=deny))
    policy = server.gate.policies.get("User:carol")
    assert policy is not None
    assert [each.decision for each in policy.of(Part.CUSTOM)] == [Decision.ALLOW, Decision.DENY]
    found = (await server.ask(ListAcls(subject_filter="carol", resource_filter="b"))).acls
    assert found is not None
    assert found[0].policies == policies("Topic:b", decision="Deny")
    await server.ask(DeleteAcl(subject="User:carol", resource="Topic:a"))
    told = (await server.ask(GetAcl(subject="User:carol"))).acl
    assert told is not None
    assert told.policies == policies("Topic:b", decision="Deny")
    await server.ask(DeleteAcl(subject="User:carol"))
    await server.ask(DeleteAcl(subject="User:carol"))
    assert (await server.ask(GetAcl(subject="User:carol"))).acl is None


async def test_what_cannot_be_granted_is_refused(server: Server) -> None:
    assert await server.refused(CreateAcl(acl=AclInfo(policies=policies("*")))) == 29
    assert await server.refused(CreateAcl(subject="User:reader", acl=AclInfo())) == 29
    unknown = AclInfo(policies=policies("Topic:a"))
    assert await server.refused(CreateAcl(subject="User:unknown", acl=unknown)) == 16
    assert await server.refused(CreateAcl(subject="User:reader", acl=unknown), "writer") == 16


async def test_rights_go_with_their_user(server: Server) -> None:
    await server.ask(CAROL)
    server.gate.policies.put(granting("carol", Topic="a:Pub"))
    await server.ask(DeleteUser(username="carol"))
    await server.ask(CAROL)
    assert (await server.ask(GetAcl(subject="User:carol"))).acl is None


async def test_an_account_of_4_9_is_a_user_with_rights(server: Server) -> None:
    account = UpdatePlainAccount(
        access_key="old",
        secret_key="12345678",
        default_topic_perm="DENY",
        default_group_perm="SUB",
        topic_perms="a=PUB,b=PUB|SUB",
        group_perms="g=DENY",
        white_remote_address="10.0.0.0/8",
    )
    await server.ask(account)
    policy = server.gate.policies.get("User:old")
    assert policy is not None
    assert [str(each.resource) for each in policy.of(Part.CUSTOM)] == [
        "Topic:a",
        "Topic:b",
        "Group:g",
    ]
    assert [str(each.resource) for each in policy.of(Part.DEFAULT)] == ["Topic:*", "Group:*"]
    version = await server.ask(GetPlainAclVersion())
    assert (version.broker_name, version.cluster_name) == ("broker-a", "c")
    assert "counter" in version.version
    await server.ask(DeletePlainAccount(access_key="old"))
    assert await server.refused(DeletePlainAccount(access_key="old")) == 210


async def test_what_4_9_let_through_is_refused(server: Server) -> None:
    for account in (
        UpdatePlainAccount(access_key="old", secret_key="12345678", topic_perms="a=pub"),
        UpdatePlainAccount(access_key="old", secret_key="12345678", white_remote_address="*"),
        UpdatePlainAccount(access_key="old"),
    ):
        assert await server.refused(account) == 209
    # Any user with a key could make itself an administrator.
    me = UpdatePlainAccount(access_key="writer", admin=True)
    assert await server.refused(me, "writer") == 16
    assert await server.refused(me, "operator") == 209
    white = UpdateGlobalWhiteAddresses(global_white_addrs="*", acl_file_full_path="/etc/passwd")
    assert await server.refused(white) == 211
