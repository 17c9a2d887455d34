"""`rocketpipe serve` with users: its NameServer lets in whom its broker does, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.blocking import Admin, Producer, Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.testing.servers import LOG_NAME, ServersFailed, serving

pytestmark = pytest.mark.scenario

SECRET = "the-secret-of-root"
USERS = (
    "authenticationEnabled=true\n"
    f'initAuthenticationUser={{"username":"root","password":"{SECRET}"}}\n'
)
INNER = f'innerClientAuthenticationCredentials={{"accessKey":"root","secretKey":"{SECRET}"}}\n'


def test_strangers_learn_nothing_at_either_port(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(USERS + INNER)
    with serving(tmp_path, ["-c", str(tmp_path / "broker.conf")]) as servers:
        for keys in ({}, {"access_key": "root", "secret_key": "not-the-secret-of-root"}):
            with (
                Admin(Session(servers.name_server, **keys)) as admin,
                pytest.raises(RocketPipeError, match=r"sign|user|access"),
            ):
                admin.topics.names()
        with Session(servers.name_server, access_key="root", secret_key=SECRET) as session:
            with Admin(session) as admin:
                admin.topics.create("orders", queues=1)
                assert "orders" in admin.topics.names()
            with Producer(session) as producer:
                assert producer.send("orders", b"hello").queue_offset == 0
    said = (tmp_path / LOG_NAME).read_text()
    assert "no access control" not in said
    assert SECRET not in said


def test_a_broker_that_could_not_register_is_told_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(USERS)
    with (
        pytest.raises(ServersFailed),
        serving(tmp_path, ["-c", str(tmp_path / "broker.conf")]),
    ):
        pass
    assert "innerClientAuthenticationCredentials: is missing" in (tmp_path / LOG_NAME).read_text()


def test_accounts_of_rocketmq_4_9_are_let_in_by_the_file_beside_the_settings(
    tmp_path: Path,
) -> None:
    (tmp_path / "broker.conf").write_text(
        "aclEnable=true\n"
        'innerClientAuthenticationCredentials={"accessKey":"admin-key","secretKey":"12345678"}\n'
    )
    accounts = (
        "accounts:\n"
        "- accessKey: admin-key\n  secretKey: 12345678\n  admin: true\n"
        "- accessKey: shop-key\n  secretKey: 87654321\n  topicPerms: [orders=PUB]\n"
    )
    plain_acl = tmp_path / "plain_acl.yml"
    plain_acl.write_text(accounts + "globalWhiteRemoteAddresses: [127.0.0.1]\n")
    arguments = ["-c", str(tmp_path / "broker.conf")]
    with pytest.raises(ServersFailed), serving(tmp_path, arguments):
        pass
    assert f"{plain_acl} line 8" in (tmp_path / LOG_NAME).read_text()
    plain_acl.write_text(accounts)
    with serving(tmp_path, arguments) as servers:
        with Admin(
            Session(servers.name_server, access_key="admin-key", secret_key="12345678")
        ) as admin:
            for topic in ("orders", "others"):
                admin.topics.create(topic, queues=1)
            with pytest.raises(RocketPipeError, match=r"is an account of .*plain_acl\.yml"):
                admin.users.disable("shop-key")
        with (
            Session(servers.name_server, access_key="shop-key", secret_key="87654321") as session,
            Producer(session) as producer,
        ):
            assert producer.send("orders", b"hello").queue_offset == 0
            with pytest.raises(RocketPipeError, match="Topic:others"):
                producer.send("others", b"hello")
    assert "12345678" not in (tmp_path / LOG_NAME).read_text()
