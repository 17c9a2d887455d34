"""A certificate, read field by field."""

from __future__ import annotations

import ssl
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.certificate import (
    Certificate,
    CertificateError,
    certificate_of,
    certificates_in,
)


def test_it_says_what_openssl_says(authority: Authority) -> None:
    pair = authority.server(["a.example", "10.1.2.3", "fd00::1"], name="said", days=30)
    (found,) = certificates_in(pair.cert.read_bytes())
    told = ssl._ssl._test_decode_cert(str(pair.cert))  # type: ignore[attr-defined]
    assert found.not_after_s == ssl.cert_time_to_seconds(told["notAfter"])
    assert found.not_before_s == ssl.cert_time_to_seconds(told["notBefore"])
    assert found.subject == dict(part[0] for part in told["subject"])["commonName"] == "a.example"
    assert found.issuer == dict(part[0] for part in told["issuer"])["commonName"]
    assert len(found.names) == len(told["subjectAltName"]) == 6


def test_several_are_read_in_their_order(authority: Authority) -> None:
    pair = authority.client("alice")
    chain = pair.cert.read_bytes() + authority.ca_file.read_bytes()
    first, second = certificates_in(b"some text\n" + chain)
    assert (first.subject, first.names, first.is_ca) == ("alice", (), False)
    assert second.is_ca


def test_those_of_the_system_can_be_read() -> None:
    found = ssl.create_default_context().get_ca_certs(binary_form=True)
    for der in found[:200]:
        read = certificate_of(der)
        assert read.is_ca
        assert read.not_before_s < time.time()


def test_names_count_as_clients_count_them() -> None:
    made = Certificate("", "", ("a.example", "*.b.example", "10.0.0.1", "fd00::1"), 0, 0, False)
    assert made.is_for("A.example.")
    assert made.is_for("x.b.example")
    assert made.is_for("10.0.0.1")
    assert made.is_for("FD00:0:0::1")
    assert not made.is_for("b.example")
    assert not made.is_for("x.y.b.example")
    assert not made.is_for("10.0.0.2")
    assert not made.is_for("")


@pytest.mark.parametrize(
    "data", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]
)
def test_what_is_none_is_an_error(data: bytes) -> None:
    with pytest.raises(CertificateError):
        certificates_in(data)


@given(st.data())
def test_whatever_a_peer_shows_is_a_certificate_or_an_error(data: st.DataObject) -> None:
    der = ssl.PEM_cert_to_DER_cert(PEM)
    at = data.draw(st.integers(0, len(der) - 1))
    changed = der[:at] + bytes([data.draw(st.integers(0, 255))]) + der[at + 1 :]
    for each in (changed, der[:at], data.draw(st.binary(max_size=200))):
        try:
            certificate_of(each)
        except CertificateError:
            pass


#: One for "broker.example", which nobody has the key of.
PEM = """-----BEGIN CERTIFICATE-----
MIIB+TCCAZ+gAwIBAgIUJi9WqjXTDEDx89xbmnQbW716FtwwCgYIKoZIzj0EAwIw
HzEdMBsGA1UEAwwUcm9ja2V0cGlwZSBDQSA0MjliNmMwHhcNMjYxMTE2MjEwMDQw
WhcNMjkwMjE4MjIwMDQwWjAZMRcwFQYDVQQDDA5icm9rZXIuZXhhbXBsZTBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABC6Ao6LrmX59tsdEr9W69yq9wm+9pZbSz0Q8
EO59TcM/ypT3mOzuYvZEJfqyo8G/k/EfeEEc7uKYkeuvsePLLWWjgb4wgbswHQYD
VR0lBBYwFAYIKwYBBQUHAwEGCCsGAQUFBwMCMAwGA1UdEwEB/wQCMAAwDgYDVR0P
AQH/BAQDAgeAMDwGA1UdEQQ1MDOCDmJyb2tlci5leGFtcGxlgglsb2NhbGhvc3SH
BH8AAAGHEAAAAAAAAAAAAAAAAAAAAAEwHQYDVR0OBBYEFCkjD1Lm70uzbsxmkdZ6
5Il48xC1MB8GA1UdIwQYMBaAFGpcZEjJ5iKUiWh6QOWPh2I5bjefMAoGCCqGSM49
BAMCA0gAMEUCIQCq+MtFqCLwkhzz36jeH+O2coTfga01cnEurABQrRa/PgIgMPCt
W8hsS1W+Q21W3Ecsp4wwd3qj1iLJ5Cl9JKI1P3U=
-----END CERTIFICATE-----
"""
