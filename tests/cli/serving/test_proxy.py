"""What ``rocketpipe proxy`` refuses to begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.cli.main import main


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
