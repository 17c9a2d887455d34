"""Why TLS did not come about, in words that say what to do next."""

from __future__ import annotations

import ssl
from typing import Final

#: OpenSSL's numbers for what is wrong with a certificate.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OTHER_NAME: Final = frozenset({62, 64})
_UNKNOWN_CA: Final = frozenset({2, 18, 19, 20, 21})
#: OpenSSL's reasons: what came is not TLS at all.
_NOT_TLS: Final = frozenset(
    {
        "WRONG_VERSION_NUMBER",
        "HTTP_REQUEST",
        "PACKET_LENGTH_TOO_LONG",
        "UNEXPECTED_MESSAGE",
        "RECORD_LAYER_FAILURE",
    }
)
#: What the other side says, or we say of it, about a certificate.
_WANTED: Final = frozenset({"TLSV13_ALERT_CERTIFICATE_REQUIRED"})
_REFUSED: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": "it is of a CA that is not trusted there",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it was not taken there",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it was not taken there",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it is not made for this use",
    "TLSV1_ALERT_ACCESS_DENIED": "it was not taken there",
}
_VERSIONS: Final = frozenset(
    {"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"}
)
_HOW_TO_TRUST: Final = (
    "name the file of its CA: ca_file=, --ca-file or ROCKETPIPE_CA_FILE; of a server "
    "tls.client.trustCertPath"
)
_HOW_TO_SHOW: Final = (
    "give one of a CA that it trusts: cert_file= and key_file=, or ROCKETPIPE_CERT_FILE and "
    "ROCKETPIPE_KEY_FILE"
)


class TlsFailure(ConnectionError):
    """No TLS with this peer; the text says why, and what may be done."""


def closed_early(error: Exception | None) -> TlsFailure:
    """The connection ended while the handshake was under way."""
    how = "closed" if error is None else f"lost ({error})"
    return TlsFailure(
        f"the connection was {how} during the TLS handshake: the port may not speak TLS (then go "
        "without: tls=False, ROCKETPIPE_TLS=false), or too many shake hands at once; "
        "`rocketpipe tls check` looks"
    )


def closed_by_peer(reads: int) -> str:
    """What to say of a plain connection that ended, of which so much was read."""
    if reads:
        return "closed by the peer"
    return (
        "closed by the peer, which never answered: it may want TLS (tls=True, --tls or "
        "ROCKETPIPE_TLS=true)"
    )


def has_ended(transport: object, error: Exception | None) -> str:
    """What to say of a connection that was used behind its end, or while it ends."""
    failure = getattr(transport, "failure", None)
    return str(failure or error or "the connection has ended")


def why_failed(error: Exception, host: str | None) -> TlsFailure:
    """What OpenSSL says, for a reader; ``host`` is who should answer, None on the server's side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailure(_of_certificate(error, host))
    reason = (getattr(error, "reason", None) or "").replace(" ", "_").upper()
    if reason in _NOT_TLS:
        text = (
            "what answers there does not speak TLS: go without (tls=False, ROCKETPIPE_TLS=false), "
            "or switch it on there (tls.server.mode)"
            if host
            else "what it sent is no TLS"
        )
    elif reason in _WANTED or (host and reason == "SSLV3_ALERT_HANDSHAKE_FAILURE"):
        text = f"it wants a client certificate: {_HOW_TO_SHOW}"
    elif reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        text = "it has no client certificate, and tls.server.need.client.auth wants one"
    elif reason in _REFUSED:
        ours = "our client certificate" if host else "our certificate"
        text = f"{ours} was refused: {_REFUSED[reason]}; " + (
            _HOW_TO_SHOW if host else "the client needs the file of our CA"
        )
    elif reason in _VERSIONS:
        text = "it speaks no version of TLS that is taken here: 1.2 at the least"
    else:
        text = f"TLS failed: {reason.replace('_', ' ').lower() or error}"
    return TlsFailure(text)


def _of_certificate(error: ssl.SSLCertVerificationError, host: str | None) -> str:
    whose = "its certificate" if host else "its client certificate"
    match error.verify_code:
        case code if code == _EXPIRED:
            return f"{whose} has expired: have it renewed"
        case code if code == _NOT_YET_VALID:
            return f"{whose} is not valid yet: are the clocks right?"
        case code if code in _OTHER_NAME:
            return (
                f"its certificate is not for {host}: connect by a name that it has "
                "(`rocketpipe tls check` lists them), or have one made with this name too"
            )
        case code if code in _UNKNOWN_CA:
            what = "is of a CA that is not trusted here"
            return f"{whose} {what}: {_HOW_TO_TRUST}" if host else f"{whose} {what}"
    return f"{whose} was not taken: {error.verify_message}"
