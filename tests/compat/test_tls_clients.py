"""Java's clients over TLS with a certificate of their own, at servers that take nothing else.

The others that are run here cannot: Go's 2.1.2 and ali-ons have no TLS, and the C++ library of the
other two is built without.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.compat.clients.catalog import JAVAS, Client, Start
from tests.compat.clients.scenarios import SCENARIOS
from tests.compat.clients.stage import Stage
from tests.compat.clients.targets import our_servers

from rocketpipe.remoting.authority import Authority, Pair
from rocketpipe.remoting.tls_settings import TlsSettings

pytestmark = pytest.mark.compat

SHOWN = ("normal", "tagged", "retried", "ordered")


def java_over_tls(
    client: Client, authority: Authority, own: Pair
) -> Callable[[str, str, Path], Start]:
    """Started as an operator would, by RocketMQ's own properties."""

    def start(name_server: str, name: str, scratch: Path) -> Start:
        plain = client.start(name_server, name, scratch)
        java, *rest = plain.command
        properties = {
            "tls.enable": "true",
            "tls.test.mode.enable": "false",
            "tls.config.file": str(scratch / "none.properties"),
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": str(authority.ca_file),
            "tls.client.certPath": str(own.cert),
            "tls.client.keyPath": str(own.key),
        }
        said = [f"-D{key}={value}" for key, value in properties.items()]
        return replace(plain, command=(java, *said, *rest))

    return start


@pytest.mark.parametrize("client", JAVAS, ids=lambda client: client.name)
def test_a_client_sees_over_tls_what_it_should(
    client: Client, authority: Authority, tmp_path: Path
) -> None:
    pair, own = authority.server(["a.example"]), authority.client("java")
    flags = ["--tls-cert", str(pair.cert), "--tls-key", str(pair.key)]
    shown = TlsSettings(ca_file=authority.ca_file, cert_file=own.cert, key_file=own.key)
    flags += ["--tls-client-ca", str(authority.ca_file)]
    over = replace(client, start=java_over_tls(client, authority, own))
    with ExitStack() as stack:
        target = stack.enter_context(our_servers(tmp_path, flags, shown))
        one = stack.enter_context(over.drive(target, f"{client.word}-one", tmp_path))
        two = stack.enter_context(over.drive(target, f"{client.word}-two", tmp_path))
        for name in SHOWN:
            SCENARIOS[name](Stage(over, target, one, two, os.getpid() % 1000))
