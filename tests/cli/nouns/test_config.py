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


def test_the_profile_is_shown_as_an_origin_and_is_that_of_the_server(
    tmp_path: Path, capsys: Capture
) -> None:
    def shown(*words: str) -> dict[str, dict[str, str]]:
        assert main(["config", "show", "--origin", "-o", "json", *words]) == 0
        return {row["key"]: row for row in json.loads(capsys.readouterr().out)}

    key = "autoCreateTopicEnable"
    assert shown()[key] == {"key": key, "value": "false", "origin": "profile prod"}
    assert shown("--for", "serve")[key]["origin"] == "profile dev"
    assert shown("--for", "serve", "--profile", "prod")[key]["value"] == "false"
    assert shown("--key", key).keys() == {key}
    kept = shown("--for", "namesrv")["kvConfigPath"]
    assert kept["origin"] == "profile prod"
    assert shown("--for", "namesrv", "--profile", "dev")["kvConfigPath"]["value"] == ""
    assert main(["config", "show", "--key", "nothing"]) == 2
    assert "has no setting 'nothing'" in capsys.readouterr().err


def test_a_check_answers_programs_too(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=b1\nbrokerNam=b2\n")
    assert main(["config", "check", str(file), "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["settings"] == 1
    assert "did you mean brokerName?" in answer["warnings"][0]


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
