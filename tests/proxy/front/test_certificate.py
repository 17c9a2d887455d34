"""The certificate that the gRPC port makes itself."""

from __future__ import annotations

import stat
from pathlib import Path

from rocketpipe.proxy.front.certificate import own_pair, port_tls
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.tls_settings import TlsConfig


def test_without_settings_a_certificate_is_made_once_and_kept(tmp_path: Path) -> None:
    made = port_tls(None, tmp_path / "tls", "127.0.0.1")
    assert made is not None
    assert made.mode == "permissive"
    assert made.tls_key is not None
    assert stat.S_IMODE(made.tls_key.stat().st_mode) == 0o600
    assert made.tls_cert is not None
    was = made.tls_cert.read_bytes()
    assert port_tls(TlsConfig(), tmp_path / "tls", "127.0.0.1") == made
    assert made.tls_cert.read_bytes() == was


def test_one_that_ends_soon_or_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    short = Authority.opened(tmp_path).server(["localhost"], days=3)
    was = short.cert.read_bytes()
    assert own_pair(tmp_path, "127.0.0.1").cert.read_bytes() != was
    short.cert.write_bytes(b"torn")
    assert b"BEGIN CERTIFICATE" in own_pair(tmp_path, "127.0.0.1").cert.read_bytes()


def test_what_the_operator_says_holds(tmp_path: Path) -> None:
    assert port_tls(TlsConfig(tls_mode="disabled"), tmp_path / "tls", "::1") is None
    pair = Authority.opened(tmp_path / "theirs").server(["a.example"])
    theirs = TlsConfig(tls_cert=pair.cert, tls_key=pair.key)
    assert port_tls(theirs, tmp_path / "tls", "::1") is theirs
    assert not (tmp_path / "tls").exists()
