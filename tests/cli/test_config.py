"""``rocketpipe config``: files of settings, without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpipe.cli.main import main

Capture = pytest.CaptureFixture[str]


def test_settings_are_shown_with_their_origin(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=b1\nfileReservedTime=24\n")
    monkeypatch.setenv("ROCKETPIPE_BROKER_NAME", "b2")
    show = ["config", "show", "--origin", "--changed", "-c", str(file), "-o", "json"]
    assert main(show) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["brokerName"]["value"] == "b2"
    assert "ROCKETPIPE_BROKER_NAME" in rows["brokerName"]["origin"]
    assert rows["fileReservedTime"]["origin"] == f"{file} line 2"
    assert main(["config", "show", "--for", "namesrv"]) == 0
    assert "listenPort" in capsys.readouterr().out


def test_a_file_is_checked_and_the_nearest_key_is_named(tmp_path: Path, capsys: Capture) -> None:
    good, odd, bad = (tmp_path / f"{name}.conf" for name in ("good", "odd", "bad"))
    good.write_text("brokerName=b1\n")
    odd.write_text("brokerNam=b1\n")
    bad.write_text("listenPort=nobody\n")
    assert main(["config", "check", str(good)]) == 0
    assert capsys.readouterr().out.endswith("1 settings take effect, 0 warnings\n")
    assert main(["config", "check", str(odd)]) == 1
    assert "did you mean brokerName?" in capsys.readouterr().err
    assert main(["config", "check", str(bad)]) == 2
    assert "listenPort" in capsys.readouterr().err
    assert main(["config", "check", str(tmp_path / "none.conf")]) == 2
