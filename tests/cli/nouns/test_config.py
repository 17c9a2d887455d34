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
    file.write_text("brokerName=b1\nbrokerNam=b2\nsendMessageThreadPoolNums=4\n")
    assert main(["config", "check", str(file), "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["settings"] == 1
    assert "did you mean brokerName?" in answer["problems"][0]
    assert answer["warnings"] == []
    assert answer["notes"] == [
        "these keys are known but have no effect here: sendMessageThreadPoolNums"
    ]


def test_all_that_is_wrong_is_said_by_how_bad_it_is(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        f"storePathRootDir={tmp_path / 'store'}\nlistenPort=nobody\nfileReservedTime=soon\n"
        "namesrvAddr=here\nbrokerNam=b1\ndiskMaxUsedSpaceRatio=88\n"
        "timerWheelEnable=true\nwaitTimeMillsInSendQueue=200\n"
    )
    assert main(["config", "check", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    levels = [line.split()[0] for line in lines[:-1]]
    assert levels == ["problem"] * 4 + ["warning", "note"]
    keys = ("listenPort", "fileReservedTime", "namesrvAddr", "brokerNam ")
    for number, (key, line) in enumerate(zip(keys, lines, strict=False), 2):
        assert f"{file} line {number}: {key}" in line, "in the order of the file"
    assert "diskMaxUsedSpaceRatio=88: 85 counts" in lines[4]
    assert "no effect here: waitTimeMillsInSendQueue" in lines[5]
    assert lines[-1].endswith("; 4 problems, 1 warning, 1 note")


def test_an_ordinary_file_of_rocketmq_passes(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        "brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\ndeleteWhen=04\n"
        "fileReservedTime=48\nbrokerRole=ASYNC_MASTER\nflushDiskType=ASYNC_FLUSH\n"
        f"storePathRootDir={tmp_path}\nstorePathConsumeQueue={tmp_path}/consumequeue\n"
        "diskMaxUsedSpaceRatio=88\nsendMessageThreadPoolNums=128\naclEnable=false\n"
    )
    assert main(["config", "check", str(file)]) == 0
    assert capsys.readouterr().out.endswith("; 0 problems, 1 warning, 1 note\n")


def test_a_file_is_checked_and_the_nearest_key_is_named(tmp_path: Path, capsys: Capture) -> None:
    good, odd, torn = (tmp_path / f"{name}.toml" for name in ("good", "odd", "torn"))
    good.write_text('brokerName = "b1"\n')
    odd.write_text('brokerNam = "b1"\n')
    torn.write_text("brokerName\n")
    assert main(["config", "check", str(good)]) == 0
    assert capsys.readouterr().out.endswith(
        "1 setting takes effect; 0 problems, 0 warnings, 0 notes\n"
    )
    assert main(["config", "check", str(odd)]) == 1
    assert "did you mean brokerName?" in capsys.readouterr().out
    assert main(["config", "check", str(torn)]) == 1
    assert "line 1" in capsys.readouterr().out
    assert main(["config", "check", str(tmp_path / "none.conf")]) == 2
    assert "cannot be read" in capsys.readouterr().err
