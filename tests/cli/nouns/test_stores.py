"""``rocketpipe store`` on the files of a broker that stopped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rocketpipe.cli.main import main
from rocketpipe.store import roster
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
    assert main(["store", "dump", root, "--topic", "nobodys"]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"there is nothing of topic 'nobodys' in {root}\n")
    entries = 0
    for queue in (stopped_store / "consumequeue" / "orders").iterdir():
        assert main(["store", "dump", root, "--topic", "orders", "--queue", queue.name]) == 0
        entries += capsys.readouterr().out.count("log_offset=")
    assert entries == 3

    assert main(["store", "export", root, str(tmp_path / "records"), "--topic", "orders"]) == 0
    assert capsys.readouterr().out.startswith("3 records exported to")
    assert main(["store", "rebuild", root, "--yes"]) == 0
    assert capsys.readouterr().out == "3 messages put into queues and index again\n"

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


def test_damage_is_mended_from_another_directory(
    stopped_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    other = tmp_path / "other"
    shutil.copytree(stopped_store, other)
    (segment,) = (stopped_store / "commitlog").iterdir()
    whole = segment.read_bytes()
    for hurt in (whole[:100] + b"\xff\xff" + whole[102:], whole[: len(whole) // 2]):
        segment.write_bytes(hurt)
        capsys.readouterr()
        assert main(["store", "repair", str(stopped_store), "--from", str(other)]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"mended {segment} from 0 to ")
        assert "quarantine/mended-" in said
        assert segment.read_bytes() == whole
        assert main(["store", "check", str(stopped_store)]) == 0
    command = ["store", "repair", str(stopped_store), "--from", str(other), "-o", "json"]
    capsys.readouterr()
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["mended"] == []
    for wrong, reason in (("nowhere", "neither a store's"), ("127.0.0.1:1", "cannot be read")):
        assert main(["store", "repair", str(stopped_store), "--from", wrong]) > 0
        assert reason in capsys.readouterr().err


def test_the_end_of_a_log_is_cut_off(stopped_store: Path, capsys: Capture) -> None:
    capsys.readouterr()
    assert main(["store", "dump", str(stopped_store), "--topic", "orders"]) == 0
    last = capsys.readouterr().out.splitlines()[-1].split()[0]
    command = ["store", "truncate", str(stopped_store), "--at", last, "--yes"]
    assert main(command) == 0
    assert f"the log ends at {last}; what was behind is in " in capsys.readouterr().out
    assert main(["store", "check", str(stopped_store)]) == 0
    assert "2 records" in capsys.readouterr().out
    assert main([*command[:-2], "7", "--yes"]) > 0
    assert "7" in capsys.readouterr().err


def test_of_several_brokers_one_is_to_be_named(
    tmp_path: Path, stopped_store: Path, capsys: Capture
) -> None:
    several = tmp_path / "several"
    several.mkdir()
    roster.begun("b", taken=False).grown(2).save(several)
    assert main(["store", "dump", str(several)]) == 2
    assert f"name one, {several / 'b-0'}, {several / 'b-1'}" in capsys.readouterr().err
    roster.begun("b", taken=True).grown(2).save(stopped_store)
    assert main(["store", "dump", str(stopped_store)]) == 0
    told = capsys.readouterr().err
    assert f"this is b alone; the others are {stopped_store / 'b-1'}" in told


def test_the_stores_of_several_are_checked_backed_up_and_restored_together(
    stopped_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    known = roster.begun("b", taken=True).grown(3)
    known.save(stopped_store)
    shutil.copytree(stopped_store, tmp_path / "other")
    shutil.move(tmp_path / "other", stopped_store / "b-1")
    (stopped_store / "b-1" / roster.FILE_NAME).unlink()
    capsys.readouterr()
    backup, again = tmp_path / "backup", tmp_path / "again"

    assert main(["store", "check", str(stopped_store), "-o", "json"]) == 0
    assert capsys.readouterr().out.count('"records": 3') == 2
    assert main(["store", "backup", str(stopped_store), str(backup)]) == 0
    assert {each.name for each in backup.iterdir()} == {"b", "b-1", roster.FILE_NAME}
    assert main(["store", "restore", str(backup), str(again)]) == 0
    assert roster.load(again) == known
    assert main(["store", "check", str(again)]) == 0
    told = capsys.readouterr().out
    assert "b: " in told
    assert "b-1: " in told
    assert main(["store", "restore", str(backup), str(again)]) == 2
    assert "is not empty" in capsys.readouterr().err

    segment = next((again / "b-1" / "commitlog").iterdir())
    with segment.open("r+b") as file:
        file.seek(60)
        file.write(b"\xff\xff")
    assert main(["store", "check", str(again)]) == 1
