"""From RocketMQ's TLS keys to a server's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.config.load import Choice, Given
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.tls_loading import HEARD, TLS_SETTINGS, tls_items, tls_of


def choice(**said: str | Path) -> Choice:
    given = [
        Given(f"tls.{key.replace('_', '.')}", str(text), "tls.properties")
        for key, text in said.items()
    ]
    return Choice(given, TLS_SETTINGS, heard=HEARD)


def test_without_a_key_there_is_no_tls() -> None:
    assert tls_of(choice()) is None
    assert tls_of(choice(test_mode_enable="false")) is None


def test_the_files_of_rocketmq_are_taken_as_they_are(authority: Authority) -> None:
    pair = authority.server(["a"])
    said = choice(
        test_mode_enable="false",
        server_certPath=pair.cert,
        server_keyPath=pair.key,
        server_trustCertPath=authority.ca_file,
        server_need_client_auth="require",
        server_authClient="true",
        server_mode="permissive",
    )
    config = tls_of(said)
    assert config is not None
    assert config.mode == "permissive"
    assert config.tls_client_auth == "require"
    assert not said.warnings()


@pytest.mark.parametrize("word", ["required", "true", "yes"])
def test_a_word_that_would_have_switched_checks_off_is_refused(
    authority: Authority, word: str
) -> None:
    pair = authority.server(["a"])
    with pytest.raises(ConfigError, match="one of none, optional, require is expected"):
        tls_of(
            choice(server_certPath=pair.cert, server_keyPath=pair.key, server_need_client_auth=word)
        )


def test_the_test_mode_is_refused_or_does_not_count(authority: Authority) -> None:
    with pytest.raises(ConfigError, match="no server makes a certificate for itself here"):
        tls_of(choice(test_mode_enable="true"))
    pair = authority.server(["a"])
    said = choice(test_mode_enable="true", server_certPath=pair.cert, server_keyPath=pair.key)
    assert tls_of(said) is not None
    assert "there is no test mode" in said.warnings()[0]


def test_that_nobody_is_checked_does_not_count(authority: Authority) -> None:
    pair = authority.server(["a"])
    said = choice(
        server_certPath=pair.cert,
        server_keyPath=pair.key,
        server_need_client_auth="optional",
        server_trustCertPath=authority.ca_file,
        server_authClient="false",
    )
    assert tls_of(said) is not None
    assert "always checked" in said.warnings()[0]


def test_a_file_that_is_wrong_is_blamed_on_the_key_that_names_it(
    authority: Authority, tmp_path: Path
) -> None:
    pair = authority.server(["a"])
    with pytest.raises(ConfigError) as wrong:
        tls_of(choice(server_certPath=pair.cert, server_keyPath=tmp_path / "none"))
    assert wrong.value.where == "tls.properties"
    assert wrong.value.reason.startswith("tls.server.keyPath=")
    with pytest.raises(ConfigError, match=r"tls\.server\.mode='enforcing': there is no certif"):
        tls_of(choice(server_mode="enforcing"))


def test_passwords_are_not_told(authority: Authority) -> None:
    pair = authority.server(["a"])
    config = tls_of(
        choice(server_certPath=pair.cert, server_keyPath=pair.key, server_keyPassword="geheim")
    )
    items = tls_items(config)
    assert items["tls.server.keyPassword"] == "******"
    assert items["tls.client.keyPassword"] == ""
    assert "geheim" not in str(items)
    assert items["tls.server.certPath"] == str(pair.cert)


def test_keys_that_others_may_read_and_certificates_that_end_soon_are_told(
    authority: Authority,
) -> None:
    pair = authority.server(["a"], name="soon", days=5)
    pair.key.chmod(0o644)
    said = choice(server_certPath=pair.cert, server_keyPath=pair.key)
    assert tls_of(said) is not None
    opened, ends = said.warnings()
    assert "others may read it (mode 644): chmod 600" in opened
    assert "the certificate ends in" in ends
