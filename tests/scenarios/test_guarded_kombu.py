"""Kombu with users and TLS: how it is told, and which rights a worker needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu import Connection, Exchange, Producer, Queue

from rocketpipe.blocking import Admin, Session, TlsSettings
from rocketpipe.errors import AccessDenied
from rocketpipe.integrations.kombu import Transport
from rocketpipe.testing import Servers, serving

pytestmark = pytest.mark.scenario


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure")


@pytest.fixture(scope="module")
def secure(root: Path) -> Iterator[Servers]:
    with serving(root, ["--secure"]) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ROCKETPIPE_")]:
        monkeypatch.delenv(name)


def test_users_and_tls_by_the_url_and_by_options(secure: Servers, root: Path) -> None:
    kept = root / "store" / "secure"
    secret = (kept / "admin.key").read_text().strip()
    ca = {"ca_file": str(kept / "ca.pem")}
    by_url = f"rocketpipes://admin:{secret}@{secure.name_server}//"
    by_options = {**ca, "access_key": "admin", "secret_key_file": str(kept / "admin.key")}
    plain = f"rocketpipe://{secure.name_server}//"
    with Connection(by_url, transport_options=ca) as connection:
        Producer(connection).publish(1, routing_key="secret", declare=[Queue("secret")])
        assert secret not in connection.as_uri()
    with Connection(plain, transport_options=by_options) as told:
        assert told.default_channel.basic_get("secret", no_ack=True).payload == 1
    with Connection(plain, transport_options=ca) as nobody, pytest.raises(AccessDenied) as denied:
        nobody.connect()
    assert not isinstance(denied.value, Transport.recoverable_connection_errors)


def test_the_documented_rights_are_enough(secure: Servers, root: Path) -> None:
    kept = root / "store" / "secure"
    tls = TlsSettings(ca_file=kept / "ca.pem")
    session = Session(
        secure.name_server, tls=tls, access_key="admin", secret_key_file=kept / "admin.key"
    )
    with session, Admin(session) as admin:
        secret = "the-secret-of-celery"
        admin.users.create("celery", secret)
        admin.policies.grant("celery", ["Topic:kombu*", "Group:kombu*"], ["All"])
        admin.policies.grant("celery", ["Cluster:*"], ["Get", "List", "Update"])
    url = f"rocketpipe://celery:{secret}@{secure.name_server}/rights"
    with Connection(url, transport_options={"ca_file": str(kept / "ca.pem")}) as connection:
        queue = Queue("q", Exchange("x", "topic"), routing_key="#", max_priority=9)
        Producer(connection).publish(1, exchange="x", routing_key="a", declare=[queue])
        channel = connection.default_channel
        assert channel.basic_get("q", no_ack=True).payload == 1
        Queue("mine", Exchange("f", "fanout"), exclusive=True)(channel).declare()
        queue(channel).delete()
