"""A certificate authority in a directory."""

from __future__ import annotations

import ssl
import stat
import time
from pathlib import Path

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.certificate import certificates_in


def test_pairs_are_for_the_names_that_were_asked_for_and_for_this_machine(tmp_path: Path) -> None:
    made = Authority.opened(tmp_path / "ca")
    pair = made.server(["broker-1.example", "10.0.0.7", "fd00::7"])
    (found,) = certificates_in(pair.cert.read_bytes())
    for host in ("broker-1.example", "10.0.0.7", "fd00::7", "localhost", "127.0.0.1", "::1"):
        assert found.is_for(host), host
    assert not found.is_for("other.example")
    assert not found.is_ca
    (ca,) = certificates_in(made.ca_file.read_bytes())
    assert ca.is_ca
    assert found.issuer == ca.subject
    assert 824 * 86_400 < found.not_after_s - time.time() < 826 * 86_400


def test_keys_are_nobody_elses_and_in_the_form_that_java_reads(tmp_path: Path) -> None:
    made = Authority.opened(tmp_path / "ca")
    for pair in (made.server(["a"]), made.client("alice")):
        assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600
        assert pair.key.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert stat.S_IMODE((tmp_path / "ca" / "ca-key.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "ca").stat().st_mode) == 0o700
    assert not [each for each in (tmp_path / "ca").iterdir() if each.name.startswith(".")]


def test_openssl_takes_what_it_signed_and_a_second_start_signs_with_the_same(
    tmp_path: Path,
) -> None:
    first = Authority.opened(tmp_path)
    second = Authority.opened(tmp_path).server(["a.example"], name="other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(second.cert, second.key)
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cafile=str(first.ca_file))
    asking = client.wrap_bio(theirs, ours, server_hostname="a.example")
    answering = context.wrap_bio(ours, theirs, server_side=True)
    for _ in range(3):
        for each in (asking, answering):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                pass
    assert asking.version() == "TLSv1.3"


@pytest.mark.parametrize("host", ["", "a b", "http://a", "ä" * 100, "a/b"])
def test_what_is_no_host_is_named(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="neither a host name nor an address"):
        Authority.opened(tmp_path).server([host])


def test_half_an_authority_is_not_replaced(tmp_path: Path) -> None:
    Authority.opened(tmp_path)
    (tmp_path / "ca-key.pem").unlink()
    with pytest.raises(ConfigError, match=r"ca-key\.pem is missing"):
        Authority.opened(tmp_path)


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        Authority.opened(tmp_path / "file" / "ca")
    (tmp_path / "bad").mkdir()
    for name in ("ca.pem", "ca-key.pem"):
        (tmp_path / "bad" / name).write_text("none")
    with pytest.raises(ConfigError, match="cannot be read"):
        Authority.opened(tmp_path / "bad")
