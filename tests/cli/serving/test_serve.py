"""``rocketpipe serve``, up to where it would serve; tests/scenarios has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("option", ["--namesrv", "--broker"])
def test_an_address_that_others_can_reach_needs_a_word_of_consent(
    tmp_path: Path, option: str, capsys: Capture
) -> None:
    assert main(["serve", "--data", str(tmp_path), option, "0.0.0.0:0"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rocketpipe serve: {option}: 0.0.0.0 can be reached")
    assert "--insecure" in error
    assert "access control" in error


def test_what_is_no_address_is_named(tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--data", str(tmp_path), "--broker", "nonsense"])
    assert ended.value.code == 2
    assert "'nonsense' is not host:port" in capsys.readouterr().err


def test_without_a_word_all_is_kept_below_where_it_was_started(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["serve", "--print-config"]) == 0
    assert "storePathRootDir=rocketpipe-data\n" in capsys.readouterr().out
    monkeypatch.setenv("ROCKETPIPE_DATA", str(tmp_path))
    assert main(["serve", "--print-config"]) == 0
    assert f"storePathRootDir={tmp_path}\n" in capsys.readouterr().out


def test_it_is_for_trying_unless_it_is_told_otherwise(capsys: Capture) -> None:
    assert main(["serve", "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert "# profile dev\nautoCreateTopicEnable=true\n" in printed
    assert f"# profile dev\nmappedFileSizeCommitLog={64 << 20}\n" in printed
    assert main(["serve", "--print-config", "--profile", "prod"]) == 0
    assert "# profile prod\nautoCreateTopicEnable=false\n" in capsys.readouterr().out


def test_tables_of_a_toml_file_speak_to_each_server(tmp_path: Path, capsys: Capture) -> None:
    toml = tmp_path / "servers.toml"
    toml.write_text(
        f'[broker]\nbroker_id = 0\nname = "b"\ndata = "{tmp_path}"\n'
        '[namesrv]\nbindAddress = "0.0.0.0"\n[store]\nfileReservedTime = 24\n'
    )
    assert main(["serve", "-c", str(toml), "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert f"# {toml} [broker]\nbrokerName=b\n" in printed
    assert "fileReservedTime=24\n" in printed
    assert main(["serve", "-c", str(toml)]) == 2
    assert f"{toml} [namesrv]: 0.0.0.0 can be reached" in capsys.readouterr().err
