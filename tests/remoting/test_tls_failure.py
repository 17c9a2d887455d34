"""Why TLS did not come about."""

from __future__ import annotations

import ssl

import pytest

from rocketpipe.remoting.tls_failure import closed_by_peer, closed_early, has_ended, why_failed


def told(reason: str, host: str | None = "a") -> str:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return str(why_failed(error, host))


@pytest.mark.parametrize(
    ("reason", "host", "said"),
    [
        ("WRONG_VERSION_NUMBER", "a", "does not speak TLS: go without"),
        ("WRONG_VERSION_NUMBER", None, "no TLS"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "a", "wants a client certificate: give one"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "a", "wants a client certificate"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", None, "tls.server.need.client.auth wants one"),
        ("TLSV1_ALERT_UNKNOWN_CA", "a", "our client certificate was refused: it is of a CA"),
        ("TLSV1_ALERT_UNKNOWN_CA", None, "the client needs the file of our CA"),
        ("UNSUPPORTED_PROTOCOL", None, "1.2 at the least"),
        ("SOMETHING_ELSE", "a", "TLS failed: something else"),
    ],
)
def test_the_cause_is_said_in_words(reason: str, host: str | None, said: str) -> None:
    assert said in told(reason, host)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (10, "its certificate has expired"),
        (9, "are the clocks right"),
        (62, "its certificate is not for a.example: connect by a name that it has"),
        (64, "its certificate is not for a.example"),
        (20, "is of a CA that is not trusted here: name the file of its CA: ca_file="),
        (99, "was not taken: odd"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said(code: int, said: str) -> None:
    error = ssl.SSLCertVerificationError(1, "odd")
    error.verify_code, error.verify_message = code, "odd"
    assert said in str(why_failed(error, "a.example"))
    assert "client certificate" in str(why_failed(error, None)) or code in (62, 64)


def test_a_connection_that_ends_early_leaves_a_hint() -> None:
    assert "the port may not speak TLS" in str(closed_early(None))
    assert "lost (reset)" in str(closed_early(ConnectionResetError("reset")))
    assert closed_by_peer(1) == "closed by the peer"
    assert "it may want TLS" in closed_by_peer(0)


def test_what_is_used_behind_its_end_says_how_it_ended() -> None:
    class Ending:
        failure = closed_early(None)

    assert has_ended(None, None) == "the connection has ended"
    assert has_ended(None, ConnectionResetError("reset")) == "reset"
    assert has_ended(Ending(), None) == str(Ending.failure)
