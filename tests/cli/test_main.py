"""The command, run as users run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rocketpipe import __version__
from rocketpipe.cli.main import main

COMMAND = str(Path(sys.executable).parent / "rocketpipe")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60)


def test_it_says_its_version() -> None:
    assert run("--version").stdout == run("-V").stdout == f"rocketpipe {__version__}\n"


def test_without_a_command_it_says_which_there_are() -> None:
    result = run()
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == run("help").stdout == run("--help").stdout
    assert all(name in result.stdout for name in ("serve", "namesrv", "broker"))


@pytest.mark.parametrize("noun", ["topic", "mqadmin"])
def test_without_a_verb_it_says_which_there_are(
    noun: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([noun]) == 0
    assert capsys.readouterr().out.startswith(f"usage: rocketpipe {noun} ")


@pytest.mark.parametrize("command", ["serve", "broker"])
def test_a_directory_that_is_none_is_one_line_on_standard_error(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main([command, "--data", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err == (
        f"rocketpipe {command}: --data: {tmp_path / 'file'} is no directory: "
        "name another with --data\n"
    )


def test_a_file_of_settings_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["namesrv", "-c", str(tmp_path / "none.conf")]) == 2
    assert capsys.readouterr().err == (
        f"rocketpipe namesrv: {tmp_path / 'none.conf'}: cannot be read "
        "(No such file or directory)\n"
    )


def test_an_interrupt_while_a_command_is_loaded_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rocketpipe.cli.main.importlib.import_module", interrupted)
    assert main(["topic", "list"]) == 130


def test_a_file_that_the_system_refuses_is_named_without_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "commitlog").mkdir()
    target = tmp_path / "none" / "out.bin"
    assert main(["store", "export", str(tmp_path), str(target)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("rocketpipe store export: ")
    assert "Errno" not in error


@pytest.mark.parametrize(
    ("given", "usage"),
    [
        (["doctor", "--zzz"], "usage: rocketpipe doctor "),
        (["serve", "here"], "usage: rocketpipe serve "),
        (["dlq", "list", "billing"], "usage: rocketpipe dlq list "),
        (["config", "check", "-c", "FILE"], "usage: rocketpipe config check "),
        (["mqadmin", "topicList", "-z"], "usage: rocketpipe mqadmin topicList "),
    ],
)
def test_what_is_not_understood_is_told_with_the_usage_of_what_was_asked_for(
    given: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(usage)
    assert "unrecognized arguments: " in error
