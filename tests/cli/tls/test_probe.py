"""What a client would meet at a port."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.remoting.tls_rooms import answering, server_tls

from rocketpipe.cli.tls.probe import Met, NobodyAnswers, probe
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.remoting.tls_settings import TlsSettings


async def met(tls: ServerTls | None, settings: TlsSettings) -> Met:
    async with answering(tls) as (address, handler):
        found = await asyncio.to_thread(probe, address, settings)
        assert handler.asked == 0
        return found


async def test_each_mode_is_told_from_the_others(authority: Authority) -> None:
    trusting = TlsSettings(ca_file=authority.ca_file)
    for mode in ("enforcing", "permissive"):
        found = await met(server_tls(authority, tls_mode=mode), trusting)
        assert found.mode == mode
        assert (found.version, found.problem) == ("TLSv1.3", "")
        assert found.certificate is not None
        assert found.certificate.is_for("a.example")
        assert found.days_left() in (824, 825)
    plain = await met(None, trusting)
    assert (plain.mode, plain.days_left()) == ("disabled", None)


async def test_what_keeps_a_client_out_is_said(authority: Authority, tmp_path: Path) -> None:
    stranger = await met(server_tls(authority), TlsSettings(ca_file=None))
    assert "not trusted here" in stranger.problem
    assert stranger.certificate is not None
    expired = authority.server(["a"], name="over", days=-3)
    late = await met(
        server_tls(authority, tls_cert=expired.cert, tls_key=expired.key),
        TlsSettings(ca_file=authority.ca_file),
    )
    assert late.problem == "its certificate has expired: have it renewed"
    assert late.days_left() in (-4, -3)


async def test_a_wanted_client_certificate_is_noticed(authority: Authority) -> None:
    tls = server_tls(authority, tls_client_auth="require", tls_client_ca=authority.ca_file)
    without = await met(tls, TlsSettings(ca_file=authority.ca_file))
    assert without.wants_certificate
    assert without.mode == "enforcing"
    pair = authority.client("probing")
    shown = TlsSettings(ca_file=authority.ca_file, cert_file=pair.cert, key_file=pair.key)
    withal = await met(tls, shown)
    assert (withal.wants_certificate, withal.problem) == (False, "")


def test_where_nobody_listens_there_is_nothing_to_say() -> None:
    with pytest.raises(NobodyAnswers, match="no connection"):
        probe("127.0.0.1:1", TlsSettings())
    with pytest.raises(ValueError, match="is not host:port"):
        probe("nowhere", TlsSettings())
