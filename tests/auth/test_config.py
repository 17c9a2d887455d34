"""What servers are told about who is let in."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.auth.config import AuthConfig
from rocketpipe.errors import ConfigError

INNER = '{"accessKey":"inner","secretKey":"inner-secret-text"}'
FIRST = '{"username":"admin","password":"admin-secret-text"}'


def test_without_a_word_everybody_is_let_in() -> None:
    config = AuthConfig()
    config.check_auth()
    assert not config.authenticates
    assert not config.authorizes
    assert config.inner_client() is None


@pytest.mark.parametrize("config", [AuthConfig(authentication=True), AuthConfig(acl_enabled=True)])
def test_rights_are_asked_for_with_who_it_is(config: AuthConfig) -> None:
    assert config.authenticates
    assert config.authorizes


def test_rights_need_not_be_asked_for() -> None:
    assert not AuthConfig(authentication=True, authorization=False).authorizes


def test_rights_alone_are_refused() -> None:
    with pytest.raises(ConfigError, match="authenticationEnabled"):
        AuthConfig(authorization=True).check_auth()


def test_who_is_there_from_the_start(tmp_path: Path) -> None:
    file = tmp_path / "inner.json"
    file.write_text(INNER)
    config = AuthConfig(init_user=FIRST, inner_credentials_file=file)
    assert [(user.name, user.is_super) for user in config.first_users()] == [
        ("admin", True),
        ("inner", True),
    ]
    inner = config.inner_client()
    assert inner is not None
    assert inner.secret.reveal() == "inner-secret-text"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"accessKey":"inner"}',
        '{"accessKey":"a b","secretKey":"very-secret-text"}',
        "x=y",
    ],
)
def test_what_cannot_be_read_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"innerClientAuthenticationCredentials: .*expected"
    ) as error:
        AuthConfig(inner_credentials=text).inner_client()
    assert "very-secret" not in str(error.value)


def test_one_place_says_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give one of them"):
        AuthConfig(inner_credentials=INNER, inner_credentials_file=tmp_path / "x").inner_client()
    with pytest.raises(ConfigError, match="cannot be read"):
        AuthConfig(inner_credentials_file=tmp_path / "x").inner_client()


def test_strangers_are_answered_about_routes_at_most() -> None:
    assert AuthConfig(open_codes="105").codes_for_strangers() == {105}
    for text in ("25", "105,25", "x", "-105"):
        with pytest.raises(ConfigError, match="105"):
            AuthConfig(open_codes=text).check_auth()


def test_settings_do_not_show_secrets() -> None:
    config = AuthConfig(init_user=FIRST, inner_credentials=INNER)
    assert "secret-text" not in repr(config)
