"""What the commands that serve share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from rocketpipe.broker.config.loading import broker_settings
from rocketpipe.cli.serving import settings
from rocketpipe.config.conf_file import read_conf
from rocketpipe.config.load import Given
from rocketpipe.errors import ConfigError


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_alone_needs_no_consent(host: str) -> None:
    settings.refuse_strangers(host, "--bind", insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "broker.example"])
def test_others_need_consent(host: str) -> None:
    settings.refuse_strangers(host, "--bind", insecure=True)
    with pytest.raises(ConfigError, match="--insecure"):
        settings.refuse_strangers(host, "--bind", insecure=False)


def test_a_directory_is_made(tmp_path: Path) -> None:
    settings.claim_directory(tmp_path / "a" / "b", "--data")
    assert (tmp_path / "a" / "b").is_dir()
    settings.claim_directory(tmp_path / "a" / "b", "--data")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/x cannot be made \(Not a directory\)"):
        settings.claim_directory(tmp_path / "file" / "x", "--data")


def test_a_directory_of_another_user_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever runs this may be root, who may do everything.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigError, match="may not use"):
        settings.claim_directory(tmp_path, "--data")


def test_words_come_in_order_of_strength(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=a\n")
    monkeypatch.setenv("NAMESRV_ADDR", "e:1")
    given = settings.given_to(
        broker_settings(),
        files=[conf],
        tables=(),
        flags=[("listenPort", "1", "--port"), ("brokerIP1", None, "--advertise")],
    )
    assert given == [
        Given("brokerName", "a", f"{conf} line 1"),
        Given("namesrvAddr", "e:1", "NAMESRV_ADDR"),
        Given("listenPort", "1", "--port"),
    ]


def test_what_is_printed_can_be_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    items = [("b", "\\x y\n", "--b"), ("A", " ", "default"), ("c", "", "default")]
    settings.print_items(items)
    printed = capsys.readouterr().out
    assert printed.startswith("A=")
    entries = read_conf(printed.encode(), "printed")
    assert [(one.key, one.value) for one in entries] == [("A", " "), ("b", "\\x y\n"), ("c", "")]


def test_flags_are_checked() -> None:
    assert settings.address("[::1]:5") == ("::1", 5)
    assert settings.port("0") == "0"
    for wrong in ("x", "70000", "-1", "٣"):
        with pytest.raises(argparse.ArgumentTypeError):
            settings.port(wrong)
    with pytest.raises(argparse.ArgumentTypeError, match="is not host:port"):
        settings.address("5")


def test_a_directory_that_was_made_for_nothing_is_gone(tmp_path: Path) -> None:
    new, used = tmp_path / "new", tmp_path / "used"
    with settings.claimed_directory(new, "--data"):
        assert new.is_dir()
    assert not new.exists()
    with settings.claimed_directory(used, "--data"):
        (used / "lock").touch()
    with settings.claimed_directory(tmp_path, "--data"):
        pass
    assert (used / "lock").exists()
