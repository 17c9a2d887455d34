"""Replicas with access control: who may follow, and who knows which users after a failover."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.asking import message
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.broker.support.replica_group import ReplicaGroup, replica_group
from tests.waiting import until

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import OldSecret
from rocketpipe.broker.replication import challenge
from rocketpipe.broker.replication.following.log_reader import LeaderLog, LeaderUnread
from rocketpipe.errors import ConfigError, RequestRejected
from rocketpipe.model.names import TABLES_TOPIC
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.users import (
    AclInfo,
    CreateAcl,
    CreateUser,
    DeleteUser,
    ListUsers,
    PolicyEntryInfo,
    PolicyInfo,
    UpdateUser,
    UserInfo,
)
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.remoting.tls_settings import Mode, TlsConfig, TlsSettings

pytestmark = pytest.mark.scenario

INNER = Credentials("inner", Secret("the-secret-of-the-brokers"))
ALICE = Credentials("alice", Secret("the-secret-of-alice"))


def guarded(inner: Credentials = INNER) -> dict[str, Any]:
    """Settings of a broker with access control."""
    told = {"accessKey": inner.access_key, "secretKey": inner.secret.reveal()}
    return {"authentication": True, "inner_credentials": json.dumps(told)}


def asking(by: Credentials = INNER) -> Caller:
    return Caller(sign=by.sign)


def new_user(by: Credentials) -> CreateUser:
    return CreateUser(username=by.access_key, user=UserInfo(password=by.secret.reveal()))


def may_send(by: Credentials, topic: str) -> CreateAcl:
    entry = PolicyEntryInfo(resource=f"Topic:{topic}", actions=["Pub"], decision="Allow")
    policy = PolicyInfo(policy_type="Custom", entries=[entry])
    subject = f"User:{by.access_key}"
    return CreateAcl(subject=subject, acl=AclInfo(subject=subject, policies=[policy]))


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        yield made


@pytest.fixture
async def fixed(tmp_path: Path) -> AsyncIterator[ReplicaGroup]:
    async with replica_group(tmp_path) as made:
        yield made


async def names_at(group: ElectedGroup, number: int) -> set[str]:
    async with asking() as caller:
        reply = await caller.call(group.replicas[number].address, ListUsers(filter=""))
    return {user.username or "" for user in reply.users or ()}


async def test_who_was_made_a_moment_ago_is_known_to_the_next_leader(group: ElectedGroup) -> None:
    leader = await group.three(**guarded())
    async with asking() as caller, asking(ALICE) as alice:
        address = group.replicas[leader].address
        await caller.call(address, new_user(ALICE))
        await caller.call(address, may_send(ALICE, "t"))
        address = group.replicas[await group.lose(leader)].address
        await alice.call(address, message("t"))
        with pytest.raises(RequestRejected, match="no permission"):
            await alice.call(address, message("other"))
        # And who was removed there is gone everywhere, on the disks too.
        await caller.call(address, DeleteUser(username="alice"))
        cores = [each.core for each in group.replicas.values()]
        await until(lambda: all(core.gate.users.get("alice") is None for core in cores))  # type: ignore[union-attr]
        files = [core.config.data / "config" / "users.json" for core in cores]
        await until(lambda: all(b"alice" not in each.read_bytes() for each in files))
    logs = [each for core in cores for each in (core.config.data / "commitlog").iterdir()]
    assert logs
    for secret in (ALICE.secret.reveal(), INNER.secret.reveal()):
        assert all(secret.encode() not in each.read_bytes() for each in logs)


async def test_a_follower_answers_about_users_and_changes_none(group: ElectedGroup) -> None:
    leader = await group.three(**guarded())
    follower = next(each for each in group.replicas if each != leader)
    async with asking() as caller:
        await caller.call(group.replicas[leader].address, new_user(ALICE))
        address = group.replicas[follower].address
        gate = group.replicas[follower].core.gate
        assert gate is not None
        await until(lambda: gate.users.get("alice") is not None)
        with pytest.raises(RequestRejected, match="not the master"):
            await caller.call(address, DeleteUser(username="alice"))
    assert await names_at(group, follower) == {"alice", "inner"}


async def test_a_deposed_leader_s_user_goes_and_a_replica_from_nothing_knows_all(
    group: ElectedGroup,
) -> None:
    leader = await group.three(**guarded())
    gate = group.replicas[leader].core.gate
    assert gate is not None
    async with asking() as caller:
        await caller.call(group.replicas[leader].address, new_user(ALICE))
    # As a leader leaves it that was cut off before its followers had heard of it.
    inner = gate.users.get("inner")
    assert inner is not None
    gate.users.watch(False)
    gate.users.put(replace(inner, name="mallory"))
    await group.lose(leader)
    await until(lambda: gate.users.get("mallory") is None)
    file = group.replicas[leader].core.config.data / "config" / "users.json"
    await until(lambda: b"mallory" not in file.read_bytes())
    await group.replica(4)
    newest = group.replicas[4].core
    assert newest.gate is not None
    await until(lambda: newest.gate.users.get("alice") is not None)  # type: ignore[union-attr]


async def test_another_secret_of_the_brokers_follows_nobody(
    fixed: ReplicaGroup, caplog: pytest.LogCaptureFixture
) -> None:
    fixed.settings = guarded()
    master = await fixed.master()
    fixed.settings = guarded(Credentials("inner", Secret("not-the-secret-of-brokers")))
    slave = await fixed.slave(master=master.core.group.status().ha_address)
    await until(lambda: "cannot be followed" in caplog.text)
    assert "User:inner is not let in" in caplog.text
    assert slave.log_end == 0


async def test_a_stranger_at_the_port_of_followers_learns_nothing(
    fixed: ReplicaGroup, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketpipe.broker.replication.leading.challenged.PATIENCE_S", 0.5)
    fixed.settings = guarded()
    master = await fixed.master()
    async with asking() as caller:
        await caller.call(master.address, message("t", b"a secret body"))
    host, port = split_address(master.core.group.status().ha_address)

    async def answered(said: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(said)
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    # A slave of Apache's, one who stalls, and one who has only guessed.
    assert await answered((0).to_bytes(8, "big")) == b""
    assert "haAllowPlainFrom names its address" in caplog.text
    hello = await answered(challenge.MAGIC)
    assert hello[:8] == challenge.MAGIC
    assert len(hello) == 40
    assert "no proof of who it is within" in caplog.text
    guess = challenge.FollowerAnswers(Credentials("inner", Secret("a guess of mine, no more")))
    assert len(await answered(challenge.MAGIC + guess.receive(hello))) <= len(hello)
    assert "it is not User:inner" in caplog.text
    # One whom the server knows, and who may not do everything, may not follow.
    async with asking() as caller:
        await caller.call(master.address, new_user(ALICE))
    known = challenge.FollowerAnswers(ALICE)
    assert len(await answered(challenge.MAGIC + known.receive(hello))) <= len(hello)
    assert master.core.group.status().followers == ()
    async with asking() as caller:
        await caller.call(master.address, message("t"))


async def test_named_addresses_follow_as_rocketmq_s_slaves_do(fixed: ReplicaGroup) -> None:
    fixed.settings = guarded()
    master = await fixed.master(plain_from=("127.0.0.0/8",))
    reader, writer = await asyncio.open_connection(
        *split_address(master.core.group.status().ha_address)
    )
    async with asking() as caller:
        await caller.call(master.address, message("t", b"seen by a slave of Apache's"))
    writer.write((0).to_bytes(8, "big"))
    found = b""
    while b"seen by a slave of Apache's" not in found:
        found += await reader.read(1 << 16)
    writer.close()


@pytest.mark.parametrize("mode", ["enforcing", "permissive"])
async def test_replicas_prove_who_they_are_behind_tls_too(
    fixed: ReplicaGroup, tmp_path: Path, mode: Mode
) -> None:
    authority = Authority.opened(tmp_path / "certs")
    pair = authority.server([])
    tls = TlsConfig(tls_mode=mode, tls_cert=pair.cert, tls_key=pair.key, tls_ca=authority.ca_file)
    async with name_server(NamesrvConfig(port=0, tls=tls)) as names:
        fixed.settings = {**guarded(), "tls": tls, "name_servers": (names,)}
        master = await fixed.master()
        slave = await fixed.slave()
        async with Caller(tls=TlsSettings(ca_file=authority.ca_file), sign=INNER.sign) as caller:
            await caller.call(master.address, message("t", b"over TLS"))
        await until(lambda: slave.log_end == master.log_end > 0)
        outgoing = tls.outgoing or TlsSettings(ca_file=authority.ca_file)
        read = partial(LeaderLog, master.core.group.status().ha_address, None, 0, outgoing)
        found = await asyncio.to_thread(read, lambda _: INNER)
        try:
            assert b"over TLS" in await asyncio.to_thread(found.read, 0, 1 << 20)
        finally:
            found.close()
        with pytest.raises(LeaderUnread):
            await asyncio.to_thread(read)
        for each in (slave, master):
            await each.stop()


async def test_replicas_need_credentials_and_rotated_ones_do(fixed: ReplicaGroup) -> None:
    first = '{"username":"root","password":"a-secret-of-root"}'
    fixed.settings = {"authentication": True, "init_user": first}
    with pytest.raises(ConfigError, match="innerClientAuthenticationCredentials: is missing"):
        await fixed.master()
    fixed.settings = guarded()
    master = await fixed.master()
    gate = master.core.gate
    assert gate is not None
    known = gate.users.get("inner")
    assert known is not None
    far = OldSecret(secret=known.secret, until_ms=1 << 60)
    gate.users.put(replace(known, secret=Secret("another-secret-of-brokers"), old=far))
    slave = await fixed.slave(master=master.core.group.status().ha_address)
    await until(lambda: len(master.core.group.status().followers) == 1)
    theirs = slave.core.gate
    assert theirs is not None
    await until(lambda: theirs.users.get("inner") == gate.users.get("inner"))


async def test_the_log_of_tables_is_nobody_s_to_write(group: ElectedGroup) -> None:
    leader = await group.three(**guarded())
    async with asking() as caller:
        with pytest.raises(RequestRejected):
            await caller.call(group.replicas[leader].address, message(TABLES_TOPIC, b"{}"))
        update = UpdateUser(username="inner", user=UserInfo(password="another-secret-of-brokers"))
        await caller.call(group.replicas[leader].address, update)
