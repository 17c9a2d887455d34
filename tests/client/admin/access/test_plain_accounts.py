"""Accounts of RocketMQ 4.9 at a broker of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.auth.secret import Secret
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.admin.access.plain_accounts import PlainAccountAdmin
from rocketpipe.client.admin.access.policies import PolicyAdmin
from rocketpipe.client.admin.access.servers import ClusterServers
from rocketpipe.client.admin.access.users import UserAdmin
from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.store.config import StoreConfig


async def test_an_account_is_a_user_with_rights(tmp_path: Path) -> None:
    config = BrokerConfig(
        data=tmp_path,
        store=StoreConfig.embedded(tmp_path),
        port=0,
        name_servers=(),
        acl_enabled=True,
        init_user='{"username":"root","password":"roots-secret-text"}',
    )
    async with (
        broker(config) as address,
        Session(address, access_key="root", secret_key="roots-secret-text") as session,
    ):
        fleet, at = Fleet(session), {"b": address}
        accounts = PlainAccountAdmin(fleet)
        servers = ClusterServers(fleet, at)
        users = UserAdmin(servers)
        policies = PolicyAdmin(servers, users)
        await accounts.update(
            at,
            "alice-key",
            Secret("12345678"),
            default_topic="DENY",
            topics=["a=PUB|SUB", "b=SUB"],
            groups=["g=SUB"],
            white_address="10.0.0.0/8",
        )
        assert [str(each.entry) for each in await policies.all("alice-key")] == [
            "Allow Sub on Group:g from 10.0.0.0/8",
            "Allow Pub,Sub on Topic:a from 10.0.0.0/8",
            "Allow Sub on Topic:b from 10.0.0.0/8",
            "Deny All on Topic:* from 10.0.0.0/8",
        ]
        await accounts.update(at, "alice-key", admin=True)
        assert (await users.show("alice-key")).is_super
        (version,) = (await accounts.versions(at)).values()
        assert '"counter":' in version.version
        for change, code in (
            (accounts.update(at, "bob-key", "12345678", topics=["a=pub"]), 209),
            (accounts.delete(at, "nobody"), 210),
            (accounts.set_white_addresses(at, "*"), 211),
        ):
            with pytest.raises(RequestRejected) as error:
                await change
            assert error.value.code == code
        await accounts.delete(at, "alice-key")
        assert await users.find("alice-key") is None
