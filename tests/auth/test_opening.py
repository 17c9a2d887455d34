"""A gate made of settings and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpipe.auth.config import INNER_USER, AuthConfig
from rocketpipe.auth.gate import Gate
from rocketpipe.auth.opening import open_gate
from rocketpipe.errors import ConfigError
from rocketpipe.store.files.disk import Disk
from rocketpipe.testing.clock import ManualClock

FIRST = '{"username":"admin","password":"admin-secret-text"}'


def opened(config: AuthConfig, usual: Path | None) -> Gate | None:
    return open_gate(config, disk=Disk(), clock=ManualClock(), usual=usual, cluster="c")


def test_where_everybody_is_let_in_there_is_no_gate(tmp_path: Path) -> None:
    assert opened(AuthConfig(), tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_nobody_could_enter_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="initAuthenticationUser"):
        opened(AuthConfig(authentication=True), tmp_path)


def test_the_first_user_is_made_once(tmp_path: Path) -> None:
    gate = opened(AuthConfig(authentication=True, init_user=FIRST), tmp_path)
    assert gate is not None
    other = FIRST.replace("admin-secret", "other-secret")
    again = opened(AuthConfig(authentication=True, init_user=other), tmp_path)
    assert again is not None
    user = again.users.get("admin")
    assert user is not None
    assert user.secret.reveal() == "admin-secret-text"


def test_servers_of_one_process_share_the_tables_of_a_directory(tmp_path: Path) -> None:
    config = AuthConfig(authentication=True, init_user=FIRST, auth_directory=tmp_path)
    one, other = opened(config, None), opened(config, None)
    assert one is not None
    assert other is not None
    assert one.users is other.users
    assert one.policies is other.policies


def test_a_server_without_a_directory_has_to_be_told_one() -> None:
    with pytest.raises(ConfigError, match="authConfigPath"):
        opened(AuthConfig(authentication=True, init_user=FIRST), None)


def test_a_gate_knows_the_user_that_is_of_servers_alone(tmp_path: Path) -> None:
    for name, known in ((INNER_USER, INNER_USER), ("root", "")):
        told = json.dumps({"accessKey": name, "secretKey": "a-secret-of-servers"})
        gate = opened(AuthConfig(authentication=True, inner_credentials=told), tmp_path / name)
        assert gate is not None
        assert gate.inner_user == known
