"""TLS contexts, and what becomes of them when their files change."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import ssl
from pathlib import Path

import pytest
from tests.remoting.tls_rooms import ASK, LOOPS, answering, on, server_tls
from tests.waiting import until

from rocketpipe.errors import ConfigError, ConnectionLost
from rocketpipe.metrics import render
from rocketpipe.remoting import tls as module
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.remoting.tls import (
    LOOK_EVERY_MS,
    ClientTls,
    ServerTls,
    client_context,
    reload_all,
    server_context,
)
from rocketpipe.remoting.tls_failure import TlsFailure
from rocketpipe.remoting.tls_settings import TlsConfig, TlsSettings
from rocketpipe.testing.clock import ManualClock


def shown(address: str, ca: Path) -> str:
    """The serial number of the certificate that a server shows."""
    host, port = split_address(address)
    context = ssl.create_default_context(cafile=str(ca))
    with socket.create_connection((host, port)) as raw:
        with context.wrap_socket(raw, server_hostname=host) as secured:
            found = secured.getpeercert()
            assert found is not None
            return str(found["serialNumber"])


def test_no_version_before_1_2_and_no_renegotiation(authority: Authority) -> None:
    pair = authority.server(["a"])
    server = server_context(TlsConfig(tls_cert=pair.cert, tls_key=pair.key))
    client = client_context(TlsSettings(ca_file=authority.ca_file))
    for context in (server, client):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_RENEGOTIATION
    assert client.check_hostname
    assert client.verify_mode == ssl.CERT_REQUIRED
    assert client_context(TlsSettings(verify=False)).verify_mode == ssl.CERT_NONE


def test_files_that_are_not_what_they_should_be_are_named(
    tmp_path: Path, authority: Authority
) -> None:
    one, two = authority.server(["a"], name="one"), authority.server(["a"], name="two")
    with pytest.raises(ConfigError, match=r"two-key\.pem: is not the key of the certificate"):
        server_context(TlsConfig(tls_cert=one.cert, tls_key=two.key))
    with pytest.raises(ConfigError, match=r"none\.pem: cannot be read \(No such file"):
        server_context(TlsConfig(tls_cert=tmp_path / "none.pem", tls_key=two.key))
    (tmp_path / "text").write_text("no certificate")
    with pytest.raises(ConfigError, match="no pair of key and certificate in PEM form"):
        server_context(TlsConfig(tls_cert=tmp_path / "text", tls_key=two.key))
    with pytest.raises(ConfigError, match="has no certificate in PEM form"):
        client_context(TlsSettings(ca_file=tmp_path / "text"))
    with pytest.raises(ConfigError, match="cannot be read"):
        client_context(TlsSettings(ca_file=tmp_path / "none"))


def test_a_key_with_a_password_wants_it_and_nobody_is_asked(
    tmp_path: Path, authority: Authority
) -> None:
    from cryptography.hazmat.primitives import serialization

    pair = authority.server(["a"], name="locked")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"geheim"),
        )
    )
    server_context(TlsConfig(tls_cert=pair.cert, tls_key=locked, tls_key_password="geheim"))
    for wrong in (None, "falsch"):
        with pytest.raises(ConfigError, match="has a password, and the one given is not it"):
            server_context(TlsConfig(tls_cert=pair.cert, tls_key=locked, tls_key_password=wrong))


@pytest.mark.parametrize("loop", LOOPS)
def test_what_is_wrong_with_a_server_is_said_to_its_client(
    loop: str, authority: Authority, tmp_path: Path
) -> None:
    other = Authority.opened(tmp_path / "other")
    expired = authority.server(["a"], name="expired", days=-1)
    elsewhere = authority._pair("elsewhere", "b", 1, _only("b.example"))

    async def told(settings: TlsSettings, **server: Path) -> str:
        async with answering(server_tls(authority, **server)) as (address, handler):
            async with Caller(tls=settings) as caller:
                with pytest.raises(ConnectionLost) as refused:
                    await caller.call(address, ASK)
            assert handler.asked == 0
        return refused.value.reason

    async def test() -> None:
        trusting = TlsSettings(ca_file=authority.ca_file)
        late = await told(trusting, tls_cert=expired.cert, tls_key=expired.key)
        assert late == "its certificate has expired: have it renewed"
        wrong = await told(trusting, tls_cert=elsewhere.cert, tls_key=elsewhere.key)
        assert wrong.startswith("its certificate is not for 127.0.0.1: connect by a name that")
        unknown = await told(TlsSettings(ca_file=other.ca_file))
        assert unknown.startswith("its certificate is of a CA that is not trusted here: name the")

    on(loop, test)


def _only(name: str) -> list[object]:
    from cryptography import x509

    return [x509.DNSName(name)]


async def test_without_verifying_whoever_answers_is_taken(
    authority: Authority, tmp_path: Path
) -> None:
    async with answering(server_tls(authority)) as (address, handler):
        async with Caller(tls=TlsSettings(verify=False)) as caller:
            await caller.call(address, ASK)
        assert handler.asked == 1


async def test_client_certificates_are_checked(authority: Authority, tmp_path: Path) -> None:
    foreign = Authority.opened(tmp_path).client("mallory")
    known = authority.client("alice")
    tls = server_tls(authority, tls_client_auth="optional", tls_client_ca=authority.ca_file)
    async with answering(tls) as (address, handler):
        for pair in (None, known):
            settings = TlsSettings(
                ca_file=authority.ca_file,
                cert_file=pair.cert if pair else None,
                key_file=pair.key if pair else None,
            )
            async with Caller(tls=settings) as caller:
                await caller.call(address, ASK)
        settings = TlsSettings(
            ca_file=authority.ca_file, cert_file=foreign.cert, key_file=foreign.key
        )
        async with Caller(tls=settings) as caller:
            with pytest.raises(ConnectionLost, match="our client certificate was refused"):
                await caller.call(address, ASK)
        assert handler.asked == 2


async def test_a_server_takes_its_own_certificate_for_good(tmp_path: Path) -> None:
    pair = Authority.opened(tmp_path).server(["a"])
    config = TlsConfig(tls_cert=pair.cert, tls_key=pair.key)
    async with answering(ServerTls(config)) as (address, _):
        async with Caller(tls=config.outgoing) as caller:
            await caller.call(address, ASK)


async def test_a_renewed_certificate_is_shown_and_nothing_is_lost_meanwhile(
    authority: Authority, tmp_path: Path
) -> None:
    clock = ManualClock()
    pair = Authority.opened(tmp_path / "ca").server(["a"])
    ca = tmp_path / "ca" / "ca.pem"
    config = TlsConfig(tls_cert=pair.cert, tls_key=pair.key)
    async with ServerTls.opened(config, clock) as tls, answering(tls) as (address, handler):
        first = await asyncio.to_thread(shown, address, ca)
        stop = asyncio.Event()
        done = [0]

        async def load() -> None:
            async with Caller(tls=TlsSettings(ca_file=ca)) as caller:
                while not stop.is_set():
                    await caller.call(address, ASK)
                    done[0] += 1

        async def come_and_go() -> None:
            while not stop.is_set():
                async with Caller(tls=TlsSettings(ca_file=ca)) as caller:
                    await caller.call(address, ASK)
                    done[0] += 1

        working = asyncio.gather(load(), come_and_go())
        for _ in range(3):
            before = done[0]
            Authority.opened(tmp_path / "ca").server(["a"])
            await clock.advance(LOOK_EVERY_MS)
            now = await asyncio.to_thread(shown, address, ca)
            assert now != first
            first = now
            await until(lambda before=before: done[0] > before + 10)
        stop.set()
        await working
        assert handler.asked == done[0]


async def test_a_pair_that_does_not_fit_leaves_the_old_one_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Authority.opened(tmp_path / "ca")
    pair, other = made.server(["a"]), made.server(["a"], name="other")
    config = TlsConfig(tls_cert=pair.cert, tls_key=pair.key)
    async with answering(tls := ServerTls(config)) as (address, _):
        first = await asyncio.to_thread(shown, address, made.ca_file)
        for spoil in (
            lambda: shutil.copy(other.cert, pair.cert),  # its key follows in a moment
            lambda: pair.cert.write_bytes(pair.cert.read_bytes()[:100]),
            pair.cert.unlink,
        ):
            spoil()
            assert not tls.reload()
            assert await asyncio.to_thread(shown, address, made.ca_file) == first
        assert "certificate not renewed, the old one serves on" in caplog.text
        shutil.copy(other.cert, pair.cert)
        shutil.copy(other.key, pair.key)
        reload_all()
        assert await asyncio.to_thread(shown, address, made.ca_file) != first
        assert not tls.reload()


def test_a_client_sees_that_its_files_were_renewed(tmp_path: Path) -> None:
    made = Authority.opened(tmp_path)
    pair = made.client()
    tls = ClientTls(TlsSettings(ca_file=made.ca_file, cert_file=pair.cert, key_file=pair.key))
    first = tls.context()
    assert tls.context() is first
    made.client()
    second = tls.context()
    assert second is not first
    pair.key.unlink()
    assert tls.context() is second


async def test_a_thread_has_tls_too(authority: Authority) -> None:
    async with answering(server_tls(authority)) as (address, _):
        host, port = split_address(address)

        def ask(settings: TlsSettings) -> str | None:
            with socket.create_connection((host, port)) as raw:
                with ClientTls(settings).wrapped(raw, host) as secured:
                    return secured.version()

        asked = await asyncio.to_thread(ask, TlsSettings(ca_file=authority.ca_file))
        assert asked == "TLSv1.3"
        with pytest.raises(TlsFailure, match="not trusted here"):
            await asyncio.to_thread(ask, TlsSettings())


async def test_what_is_measured(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    module._live.clear()
    assert not list(module.families())
    caplog.set_level(logging.WARNING)
    async with answering(tls := server_tls(authority)) as (address, _):
        async with Caller() as caller:
            with pytest.raises(ConnectionLost):
                await caller.call(address, ASK)
        text = render(module.families())
        assert 'rocketpipe_tls_handshakes_total{result="plain"} 1' in text
        assert f"rocketpipe_tls_certificate_expiry_seconds {tls.expires_s()}" in text
    assert "connection refused peer=127.0.0.1" in caplog.text


async def test_where_it_is_disabled_there_is_none(authority: Authority) -> None:
    pair = authority.server(["a"])
    config = TlsConfig(tls_cert=pair.cert, tls_key=pair.key, tls_mode="disabled")
    for each in (None, config):
        async with ServerTls.opened(each, ManualClock()) as tls:
            assert tls is None
