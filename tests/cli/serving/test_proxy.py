"""``rocketpipe proxy``, up to where it would serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.cli.main import main


def test_it_is_told_by_file_and_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "proxy.conf"
    conf.write_text("grpcServerPort=1\nmaxMessageSize=1m\n")
    given = ["proxy", "-c", str(conf), "-n", "a:1;b:2", "--grpc", "127.0.0.1:2"]
    assert main([*given, "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert "# --grpc\ngrpcServerPort=2\n" in printed
    assert "# --namesrvAddr\nnamesrvAddr=a:1;b:2\n" in printed
    assert f"# {conf} line 2\nmaxMessageSize=1048576\n" in printed


def test_an_address_that_others_can_reach_needs_a_word_of_consent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["proxy", "--grpc", "0.0.0.0:0"]) == 2
    assert "--insecure" in capsys.readouterr().err


def test_a_name_server_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proxy", "-n", "nowhere"]) == 2
    assert "namesrvAddr" in capsys.readouterr().err


def test_a_user_is_not_lent_to_whoever_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROCKETPIPE_ACCESS_KEY", "admin")
    monkeypatch.setenv("ROCKETPIPE_SECRET_KEY", "the-secret-of-admin")
    assert main(["proxy", "--grpc", "127.0.0.1:0", "--data", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "'admin'" in said
    assert "--insecure" in said
    assert "the-secret-of-admin" not in said
