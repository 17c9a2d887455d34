"""``serve --brokers``, up to where it would serve; tests/scenarios has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.cli.main import main
from rocketpipe.store import roster

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("text", ["0", "-1", "257", "two", "1.5", ""])
def test_it_is_a_number_or_auto(tmp_path: Path, text: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--data", str(tmp_path), f"--brokers={text}"])
    assert ended.value.code == 2
    assert "1 to 256, or auto, is expected" in capsys.readouterr().err


def test_fewer_than_there_are_is_refused_in_a_line_that_says_what_to_do(
    tmp_path: Path, capsys: Capture
) -> None:
    roster.begun("broker-a", taken=False).grown(2).save(tmp_path)
    assert main(["serve", "--data", str(tmp_path), "--brokers", "1"]) == 2
    (line,) = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("rocketpipe ")
    ]
    assert line.startswith(f"rocketpipe serve: --brokers: {tmp_path} holds 2 brokers")
    assert "`rocketpipe broker drain NAME`" in line


def test_replicas_are_refused(tmp_path: Path, capsys: Capture) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerRole=SYNC_MASTER\n")
    words = ["serve", "--data", str(tmp_path / "d"), "--brokers", "2", "-c", str(conf)]
    assert main(words) == 2
    assert "several brokers in one directory have no replicas" in capsys.readouterr().err


def test_a_roster_that_cannot_be_read_opens_nobody(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / roster.FILE_NAME).write_text("no JSON")
    for words in (["serve"], ["serve", "--brokers", "2"], ["broker", "--port", "0"]):
        assert main([*words, "--data", str(tmp_path)]) == 1
        assert f"{tmp_path / roster.FILE_NAME}: " in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == [roster.FILE_NAME]


def test_a_single_broker_is_refused_in_the_directory_of_several(
    tmp_path: Path, capsys: Capture
) -> None:
    roster.begun("broker-a", taken=False).grown(2).save(tmp_path)
    assert main(["broker", "--port", "0", "--data", str(tmp_path)]) == 2
    assert "run them with `rocketpipe serve" in capsys.readouterr().err


def test_a_directory_that_somebody_has_is_refused(tmp_path: Path, capsys: Capture) -> None:
    with roster.claimed(tmp_path):
        assert main(["serve", "--brokers", "2", "--data", str(tmp_path)]) == 1
    assert "brokers.lock is locked" in capsys.readouterr().err
    assert roster.load(tmp_path) is None
