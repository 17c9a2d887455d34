"""Requests about users and their rights, as RocketMQ's tools write them."""

from __future__ import annotations

from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command, to_reply
from rocketpipe.protocol.requests.users import (
    AclInfo,
    CreateUser,
    GetUser,
    ListAcls,
    ListUsers,
    PolicyEntryInfo,
    PolicyInfo,
    UpdateAcl,
    UpdatePlainAccount,
    UserInfo,
    UserReply,
)


def test_a_user_is_written_as_tools_write_it() -> None:
    asked = CreateUser(username="a", user=UserInfo(username="a", password="p", user_type="Super"))
    command = to_command(asked, 1)
    assert command.fields == {"username": "a"}
    assert command.body == b'{"password":"p","userType":"Super","username":"a"}'
    assert from_command(CreateUser, command) == asked


def test_nulls_are_taken_for_nothing() -> None:
    body = b'{"username":"a","password":null,"userType":null,"userStatus":null}'
    command = Command(code=3001, opaque=1, fields={"username": "a"}, body=body)
    assert from_command(CreateUser, command).user == UserInfo(username="a")


def test_a_user_that_is_not_there_is_an_answer_without_a_body() -> None:
    question = to_command(GetUser(username="a"), 1)
    answer = to_reply(question, UserReply())
    assert answer.body == b""
    assert read_reply(GetUser(username="a"), answer).user is None


def test_lists_come_as_arrays() -> None:
    answer = Command(code=0, opaque=1, flag=RESPONSE, body=b'[{"username":"a"}]')
    assert read_reply(ListUsers(filter="a"), answer).users == (UserInfo(username="a"),)
    body = b'[{"subject":"User:a","policies":[]}]'
    answer = Command(code=0, opaque=1, flag=RESPONSE, body=body)
    found = read_reply(ListAcls(subject_filter="a", resource_filter="b"), answer).acls
    assert found == (AclInfo(subject="User:a", policies=()),)


def test_rights_are_written_as_tools_write_them() -> None:
    entry = PolicyEntryInfo(resource="Topic:a", actions=("Pub",), source_ips=(), decision="Allow")
    acl = AclInfo(policies=(PolicyInfo(policy_type="Custom", entries=(entry,)),))
    command = to_command(UpdateAcl(subject="User:a", acl=acl), 1)
    assert command.fields == {"subject": "User:a"}
    assert from_command(UpdateAcl, command).acl == acl


def test_an_account_of_4_9_is_in_the_header() -> None:
    asked = UpdatePlainAccount(access_key="a", secret_key="s", topic_perms="t=PUB", admin=True)
    command = to_command(asked, 1)
    assert command.fields["accessKey"] == "a"
    assert command.fields["admin"] == "true"
    assert from_command(UpdatePlainAccount, command) == asked
