"""The original verbs about users and rights, against real servers that ask who comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.access.support.guarded import as_root

from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]
CLUSTER = ("-c", "DefaultCluster")


@pytest.fixture
def servers(guarded_servers: Servers) -> Servers:
    return guarded_servers


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    as_root(monkeypatch)


def test_a_user_from_its_creation_to_its_end(servers: Servers, command: Command) -> None:
    made = command(
        "mqadmin", "createUser", *CLUSTER, "-u", "ann", "-p", "anns-pass", "-t", "Normal"
    )
    assert made.splitlines() == sorted(
        f"create user to {address} success." for address in (servers.name_server, servers.broker)
    )
    head, row = command("mqadmin", "getUser", "-b", servers.broker, "-u", "ann").splitlines()
    assert head.split() == ["#UserName", "#Password", "#UserType", "#UserStatus"]
    assert row.split() == ["ann", "******", "Normal", "enable"]
    change = ("mqadmin", "updateUser", *CLUSTER, "-u", "ann")
    command(*change, "-s", "disable")
    command(*change, "-t", "Super")
    command(*change, "-p", "anns-other-pass")
    assert "give -p, -t or -s" in command(*change, code=2)
    _, row = command("mqadmin", "listUser", *CLUSTER, "-f", "an").splitlines()
    assert row.split() == ["ann", "******", "Super", "disable"]
    for _ in range(2):  # the second time nobody is there, which is no error
        assert "success" in command("mqadmin", "deleteUser", *CLUSTER, "-u", "ann")
    assert "7 or more" in command("mqadmin", "createUser", *CLUSTER, "-u", "x", "-p", "abc", code=2)
    assert "no broker tells a secret" in command(
        "mqadmin", "copyUser", "-f", "broker-a", "-t", "broker-a", code=2
    )


def test_rights_are_granted_replaced_and_taken_back(servers: Servers, command: Command) -> None:
    command("mqadmin", "createUser", *CLUSTER, "-u", "bob", "-p", "bobs-password")
    who = ("-s", "User:bob")
    grant = (*CLUSTER, *who, "-r", "Topic:t,Group:g", "-a", "Pub,Sub", "-i", "10.0.0.0/8")
    assert "create acl to" in command("mqadmin", "createAcl", *grant, "-d", "Allow")
    command("mqadmin", "updateAcl", *CLUSTER, *who, "-r", "Topic:t", "-a", "Sub", "-d", "Deny")
    head, first, second = command("mqadmin", "getAcl", *CLUSTER, *who).splitlines()
    assert head.split() == [
        "#Subject",
        "#PolicyType",
        "#Resource",
        "#Actions",
        "#SourceIp",
        "#Decision",
    ]
    assert first.split() == ["User:bob", "Custom", "Group:g", "Pub,Sub", "10.0.0.0/8", "Allow"]
    assert second.split() == ["User:bob", "Custom", "Topic:t", "Sub", "-", "Deny"]
    assert "Group:g" in command("mqadmin", "listAcl", *CLUSTER, "-s", "bob", "-r", "Group")
    copy = ("-f", "broker-a", "-t", servers.broker, "-s", "User:bob")
    assert "copy acl of User:bob" in command("mqadmin", "copyAcl", *copy)
    for _ in range(2):
        command("mqadmin", "deleteAcl", *CLUSTER, *who, "-r", "Topic:t", "-t", "Custom")
    assert "Topic:t" not in command("mqadmin", "getAcl", *CLUSTER, *who)
    command("mqadmin", "deleteAcl", *CLUSTER, *who)
    wrong = (*CLUSTER, *who, "-r", "t", "-a", "Pub", "-d", "Allow")
    assert "is no resource" in command("mqadmin", "createAcl", *wrong, code=2)
