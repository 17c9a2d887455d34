"""``rocketpipe store`` on the files of a broker that stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpipe.cli.main import main
from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.scenario

Capture = pytest.CaptureFixture[str]


def test_a_store_is_checked_dumped_exported_rebuilt_backed_up_and_restored(
    stopped_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    root = str(stopped_store)
    capsys.readouterr()
    assert main(["store", "check", root, "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["records"], report["stopped_in_order"]) == (True, 3, True)

    assert main(["store", "dump", root, "--topic", "orders", "--count", "2"]) == 0
    assert capsys.readouterr().out.count("KEYS='A1'") == 2
    entries = 0
    for queue in (stopped_store / "consumequeue" / "orders").iterdir():
        assert main(["store", "dump", root, "--topic", "orders", "--queue", queue.name]) == 0
        entries += capsys.readouterr().out.count("log_offset=")
    assert entries == 3

    assert main(["store", "export", root, str(tmp_path / "records"), "--topic", "orders"]) == 0
    assert capsys.readouterr().out.startswith("3 records are in")
    assert main(["store", "rebuild", root, "--yes"]) == 0
    assert capsys.readouterr().out == "3 messages are in queues and index again\n"

    backup, again = str(tmp_path / "backup"), str(tmp_path / "again")
    assert main(["store", "backup", root, backup]) == 0
    assert main(["store", "restore", backup, again]) == 0
    capsys.readouterr()
    assert main(["store", "check", again]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


def test_damage_is_found_and_told_by_the_exit_code(stopped_store: Path, capsys: Capture) -> None:
    (segment,) = (stopped_store / "commitlog").iterdir()
    with segment.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff\xff")
    capsys.readouterr()
    assert main(["store", "check", str(stopped_store)]) == 1
    assert segment.name in capsys.readouterr().out


def test_a_store_in_use_is_not_backed_up(tmp_path: Path, capsys: Capture) -> None:
    with serving(tmp_path):
        command = ["store", "backup", str(tmp_path / "store"), str(tmp_path / "backup")]
        assert main(command) == 1
        error = capsys.readouterr().err
        assert "is locked" in error
        assert "stop that one first" in error
        assert main(["store", "check", str(tmp_path / "store")]) == 0
        assert "a broker uses" in capsys.readouterr().err


def test_what_is_no_store_is_told_so(tmp_path: Path, capsys: Capture) -> None:
    assert main(["store", "check", str(tmp_path)]) == 2
    assert "no directory 'commitlog'" in capsys.readouterr().err
    assert main(["store", "dump", str(tmp_path), "--queue", "1"]) == 2
