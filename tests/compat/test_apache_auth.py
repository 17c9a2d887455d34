"""Our client with a name and a secret, at Apache's servers that ask for them: ACL 2.0 and 1.0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.compat.support.apache import NEWEST, OLDEST, find_apache
from tests.scenarios.support.users import make_user

from rocketpipe import Message, Producer, Session, SimpleConsumer
from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.errors import RocketPipeError

pytestmark = pytest.mark.compat

ROOT = Credentials("root", Secret("the-secret-of-root"))
_PROVIDERS = "org.apache.rocketmq.auth"
ACL_2: dict[str, object] = {
    "authenticationEnabled": "true",
    "authenticationProvider": (
        f"{_PROVIDERS}.authentication.provider.DefaultAuthenticationProvider"
    ),
    "authenticationMetadataProvider": (
        f"{_PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_PROVIDERS}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "initAuthenticationUser": '{"username":"root","password":"the-secret-of-root"}',
    "innerClientAuthenticationCredentials": (
        '{"accessKey":"root","secretKey":"the-secret-of-root"}'
    ),
}
ACL_1 = """\
accounts:
- accessKey: rootuser
  secretKey: the-secret-of-root
  admin: true
- accessKey: appuser
  secretKey: the-secret-of-app
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - orders=PUB|SUB
"""


def session(name_servers: str, by: Credentials | None) -> Session:
    if by is None:
        return Session(name_servers)
    return Session(name_servers, access_key=by.access_key, secret_key=by.secret)


async def there_and_back(name_servers: str, by: Credentials) -> None:
    """Send to ``orders``, and read it: whatever a producer and a consumer ask is signed."""
    async with session(name_servers, by) as shared:
        async with Producer(shared, group="writers") as producer:
            for number in range(8):
                await producer.send(Message("orders", b"%d" % number), timeout_ms=60_000)
        async with SimpleConsumer(shared, group="readers", start="first") as consumer:
            await consumer.subscribe("orders")
            seen: set[bytes] = set()
            while len(seen) < 8:
                for message in await consumer.receive(wait_ms=5000):
                    seen.add(message.body)
                    await consumer.ack(message)


async def refused(name_servers: str, by: Credentials | None, topic: str = "orders") -> str:
    async with session(name_servers, by) as shared, Producer(shared, group="writers") as producer:
        with pytest.raises(RocketPipeError) as error:
            await producer.send(Message(topic, b"not for me"), timeout_ms=20_000)
    return str(error.value)


async def test_users_and_rights_of_5_5(tmp_path: Path) -> None:
    apache = find_apache(NEWEST)
    async with apache.cluster(tmp_path, **ACL_2) as cluster:
        at = cluster.name_servers
        await there_and_back(at, ROOT)
        app = await make_user(
            (cluster.broker,), ROOT, "app", Topic="orders:Pub,Sub", Group="readers:Sub"
        )
        await there_and_back(at, app)
        async with session(at, ROOT) as shared, Producer(shared) as producer:
            await producer.send(Message("other", b"makes it"), timeout_ms=60_000)
        assert "User:app" in await refused(at, app, "other")
        await refused(at, None)
        await refused(at, Credentials("app", Secret("not-the-secret-of-app")))


async def test_accounts_of_4_9(tmp_path: Path) -> None:
    apache: Any = find_apache(OLDEST)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACL_1)
    async with apache.cluster(tmp_path, aclEnable="true") as cluster:
        at = cluster.name_servers
        root = Credentials("rootuser", Secret("the-secret-of-root"))
        app = Credentials("appuser", Secret("the-secret-of-app"))
        async with session(at, root) as shared, Producer(shared, group="writers") as producer:
            for topic in ("orders", "other"):
                await producer.send(Message(topic, b"makes it"), timeout_ms=60_000)
        async with session(at, app) as shared, Producer(shared, group="writers") as producer:
            await producer.send(Message("orders", b"mine"), timeout_ms=60_000)
        await refused(at, app, "other")
        await refused(at, None)
        await refused(at, Credentials("appuser", Secret("not-the-secret-of-app")))
