"""What both sides of TLS are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.remoting.tls_settings import TlsConfig, TlsSettings

PAIR = {"tls_cert": Path("c.pem"), "tls_key": Path("k.pem")}


def test_the_environment_speaks_where_the_program_says_nothing() -> None:
    named = {"ROCKETPIPE_TLS": "true", "ROCKETPIPE_CA_FILE": "ca.pem"}
    assert TlsSettings.of(None, {}) is None
    assert TlsSettings.of(None, {"ROCKETPIPE_CA_FILE": "ca.pem"}) is None
    assert TlsSettings.of(None, named) == TlsSettings(ca_file="ca.pem")
    assert TlsSettings.of(False, named) is None
    assert TlsSettings.of(True, {}) == TlsSettings()
    assert TlsSettings.of(True, {"ROCKETPIPE_CERT_FILE": "c", "ROCKETPIPE_KEY_FILE": "k"}) == (
        TlsSettings(cert_file="c", key_file="k")
    )
    own = TlsSettings(ca_file="mine")
    assert TlsSettings.of(own, named) is own


def test_to_check_nobody_has_to_be_spelled_out() -> None:
    assert TlsSettings().verify
    told = TlsSettings.of(None, {"ROCKETPIPE_TLS": "1", "ROCKETPIPE_TLS_VERIFY": "false"})
    assert told == TlsSettings(verify=False)
    with pytest.raises(ConfigError, match="ROCKETPIPE_TLS_VERIFY: 'maybe': true or false"):
        TlsSettings.of(True, {"ROCKETPIPE_TLS_VERIFY": "maybe"})


def test_a_password_is_not_shown() -> None:
    assert "hush" not in repr(TlsConfig(tls_key_password="hush", tls_own_key_password="hush"))
    assert "geheim" not in repr(TlsSettings(key_password="geheim"))


def test_a_certificate_means_enforcing_unless_something_else_is_said() -> None:
    assert TlsConfig().mode == "disabled"
    assert TlsConfig(**PAIR).mode == "enforcing"
    assert TlsConfig(tls_mode="permissive", **PAIR).mode == "permissive"
    assert TlsConfig(tls_mode="disabled", **PAIR).mode == "disabled"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"tls_cert": Path("c")}, r"tls\.server\.certPath: tls\.server\.keyPath has to be given"),
        ({"tls_mode": "enforcing"}, "there is no certificate"),
        ({"tls_client_auth": "require", **PAIR}, r"give their CA, tls\.server\.trustCertPath"),
        ({"tls_own_cert": Path("c")}, "certificate and key have to be given together"),
    ],
)
def test_what_does_not_fit_together_is_named(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TlsConfig(**values)  # type: ignore[arg-type]


def test_a_server_that_enforces_tls_connects_with_it_and_trusts_itself() -> None:
    assert TlsConfig().outgoing is None
    assert TlsConfig(tls_mode="permissive", **PAIR).outgoing is None
    assert TlsConfig(tls_outgoing=False, **PAIR).outgoing is None
    alone = TlsConfig(**PAIR).outgoing
    assert alone == TlsSettings(
        cert_file=Path("c.pem"), key_file=Path("k.pem"), pinned_file=Path("c.pem")
    )
    among = TlsConfig(tls_ca=Path("ca.pem"), tls_own_cert=Path("o"), tls_own_key=Path("p"), **PAIR)
    assert among.outgoing == TlsSettings(
        ca_file=Path("ca.pem"), cert_file=Path("o"), key_file=Path("p")
    )
    assert TlsConfig(tls_outgoing=True, tls_verify=False).outgoing == TlsSettings(verify=False)


def test_a_password_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("geheim\n")
    assert TlsConfig(tls_key_password_file=tmp_path / "password").key_password == "geheim"
    with pytest.raises(ConfigError, match="cannot be read"):
        _ = TlsConfig(tls_key_password_file=tmp_path / "none").key_password
