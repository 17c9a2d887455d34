"""Other people's clients as users, by the hooks that their libraries have for that.

They sign every request as they always did; the user has rights on what the scenarios use, and on
nothing else. Java's run over TLS besides, with a server that takes nothing but TLS: Go's 2.1.2,
ali-ons and the C++ library of the other two have none. `make test` runs ali-ons.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.compat.clients.catalog import ALI_ONS, JAVAS, QUICK, SLOW, Client, Start
from tests.compat.clients.driver import ClientFailed, Outgoing
from tests.compat.clients.scenarios import SCENARIOS
from tests.compat.clients.stage import Stage
from tests.compat.clients.targets import Target, our_servers
from tests.compat.test_tls_clients import java_over_tls
from tests.scenarios.support.users import make_user

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.tls_settings import TlsSettings

ROOT = Credentials("root", Secret("the-secret-of-root"))
SETTINGS: dict[str, object] = {
    "authenticationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"the-secret-of-root"}',
    "innerClientAuthenticationCredentials": (
        '{"accessKey":"root","secretKey":"the-secret-of-root"}'
    ),
}
SHOWN = ("normal", "retried", "ordered", "transactions")


def signing(client: Client, by: Credentials) -> Callable[[str, str, Path], Start]:
    """Told by the environment of its program as whom it signs."""

    def start(name_server: str, name: str, scratch: Path) -> Start:
        plain = client.start(name_server, name, scratch)
        said = {"CLIENT_ACCESS_KEY": by.access_key, "CLIENT_SECRET_KEY": by.secret.reveal()}
        return replace(plain, environ={**plain.environ, **said})

    return start


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with our_servers(tmp_path_factory.mktemp("guarded"), by=ROOT, **SETTINGS) as made:
        yield made


def user(target: Target, name: str, **rights: str) -> Credentials:
    return asyncio.run(make_user((target.broker, target.name_server), ROOT, name, **rights))


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(
            client,
            id=client.name,
            marks=pytest.mark.scenario if client is ALI_ONS else pytest.mark.compat,
        )
        for client in (*QUICK, *(client for client in SLOW if client not in JAVAS))
    ],
)
def test_a_client_with_a_name_sees_what_it_should(
    client: Client, target: Target, tmp_path: Path
) -> None:
    by = user(target, f"app-{client.word}", Topic="*:Pub,Sub", Group="*:Pub,Sub")
    may_not = user(target, f"other-{client.word}", Topic="elsewhere:Pub")
    with ExitStack() as stack:
        known = replace(client, start=signing(client, by))
        one = stack.enter_context(known.drive(target, f"{client.word}-one", tmp_path))
        two = stack.enter_context(known.drive(target, f"{client.word}-two", tmp_path))
        shown = SHOWN if client not in QUICK else ("normal",)
        for name in shown:
            if name in client.can:
                SCENARIOS[name](Stage(known, target, one, two, os.getpid() % 1000))
        refused(replace(client, start=signing(client, may_not)), target, tmp_path, stack)


def refused(client: Client, target: Target, scratch: Path, stack: ExitStack) -> None:
    """It is let in, and may send elsewhere alone: the library says no to its user."""
    topic = f"not-for-{client.word}"
    target.put(topic, 0, b"is there")
    target.await_route(topic)
    driver = stack.enter_context(client.drive(target, f"{client.word}-other", scratch))
    with pytest.raises(ClientFailed):
        driver.send(Outgoing(topic=topic, body=b"not for me"))
    assert target.end(topic, 0) <= 1


@pytest.mark.compat
@pytest.mark.parametrize("client", JAVAS, ids=lambda client: client.name)
def test_java_with_a_name_over_tls(client: Client, authority: Authority, tmp_path: Path) -> None:
    pair, own = authority.server(["a.example"]), authority.client("java")
    flags = ["--tls-cert", str(pair.cert), "--tls-key", str(pair.key)]
    trusting = TlsSettings(ca_file=authority.ca_file)
    with ExitStack() as stack:
        target = stack.enter_context(our_servers(tmp_path, flags, trusting, ROOT, **SETTINGS))

        async def users() -> list[Credentials]:
            at = (target.broker, target.name_server)
            return [
                await make_user(at, ROOT, "app", tls=trusting, Topic="*:Pub,Sub", Group="*:Sub"),
                await make_user(at, ROOT, "other", tls=trusting, Topic="elsewhere:Pub"),
            ]

        by, may_not = asyncio.run(users())
        over = replace(client, start=java_over_tls(client, authority, own))
        known = replace(over, start=signing(over, by))
        one = stack.enter_context(known.drive(target, f"{client.word}-one", tmp_path))
        two = stack.enter_context(known.drive(target, f"{client.word}-two", tmp_path))
        for name in (*SHOWN, "lookups", "asked"):
            SCENARIOS[name](Stage(known, target, one, two, os.getpid() % 1000))
        refused(replace(over, start=signing(over, may_not)), target, tmp_path, stack)
