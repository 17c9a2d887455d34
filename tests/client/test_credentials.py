"""Where a client's name and secret come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.client.credentials import credentials_of, read_secret
from rocketpipe.errors import ConfigError


def test_nobody_is_somebody_unless_it_is_said() -> None:
    assert credentials_of(environment={}) is None


def test_what_is_given_counts_and_the_environment_fills_in(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("of-the-file\nand more\n")
    environment = {
        "ROCKETPIPE_ACCESS_KEY": "env",
        "ROCKETPIPE_SECRET_KEY": "of-the-environment",
        "ROCKETPIPE_SECRET_KEY_FILE": str(file),
    }
    for given, name, secret in (
        ({}, "env", "of-the-environment"),
        ({"access_key": "me"}, "me", "of-the-environment"),
        ({"access_key": "me", "secret_key": "mine"}, "me", "mine"),
        ({"secret_key_file": file}, "env", "of-the-file"),
    ):
        found = credentials_of(**given, environment=environment)  # type: ignore[arg-type]
        assert found is not None
        assert (found.access_key, found.secret.reveal()) == (name, secret)
    del environment["ROCKETPIPE_SECRET_KEY"]
    found = credentials_of(environment=environment)
    assert found is not None
    assert found.secret.reveal() == "of-the-file"


def test_half_of_it_is_refused_without_a_word_of_the_secret(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ROCKETPIPE_SECRET_KEY_FILE"):
        credentials_of("me", environment={})
    with pytest.raises(ConfigError, match="ROCKETPIPE_ACCESS_KEY") as error:
        credentials_of(secret_key="hush-hush", environment={})
    assert "hush" not in str(error.value)
    with pytest.raises(ConfigError, match="one of them"):
        credentials_of("me", "hush-hush", tmp_path / "x", environment={})
    with pytest.raises(ConfigError, match="stands for"):
        credentials_of("me", "******", environment={})


def test_a_file_without_a_secret_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_secret(tmp_path / "x")
    for text in (b"", b"\n", b"\xff\xfe"):
        (tmp_path / "key").write_bytes(text)
        with pytest.raises(ConfigError, match=r"first line|no text"):
            read_secret(tmp_path / "key")
