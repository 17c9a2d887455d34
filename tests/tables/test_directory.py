"""The directory of a table, and who may write it."""

from __future__ import annotations

import errno
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.tables.directory import TableDirectory, check_same
from rocketpipe.tables.errors import AlreadyFollowed, NotATable, SpecMismatch
from rocketpipe.tables.spec import TableSpec


def spec(**fields: Any) -> TableSpec:
    return TableSpec(**{"topic": "orders", "name_server": "127.0.0.1:9876"} | fields)


def test_a_spec_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path / "lake")
    kept = spec()
    directory.write(kept)
    assert directory.read() == kept
    assert [each.name for each in directory.spec_path.parent.iterdir()] == ["table.json"]


def test_a_place_without_a_table_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NotATable, match="table follow TOPIC --to DIR"):
        TableDirectory(tmp_path / "none").read()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("made", "said"),
    [("_delta_log/x", "follows no topic"), ("photos/x", "'photos'"), ("", "is a file")],
)
def test_a_place_that_is_something_else_is_refused(tmp_path: Path, made: str, said: str) -> None:
    root = tmp_path / "lake"
    (root / made).parent.mkdir(parents=True, exist_ok=True)
    (root / made if made else root).write_text("")
    with pytest.raises(NotATable, match=said):
        TableDirectory(root).check_free()


def test_an_empty_place_and_one_that_was_only_locked_are_free(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path / "lake")
    directory.check_free()
    with directory.locked():
        pass
    directory.check_free()


def test_a_spec_that_is_damaged_is_named(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path)
    directory.write(spec())
    directory.spec_path.write_text("{")
    with pytest.raises(NotATable, match=r"_rocketpipe/table.json is not readable .*: put it back"):
        directory.read()


def test_an_address_is_no_directory() -> None:
    with pytest.raises(ConfigError, match="under the same path"):
        TableDirectory("s3://bucket/orders")


def test_one_process_at_a_time_writes(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path)
    program = (
        "import sys; from rocketpipe.tables.directory import TableDirectory\n"
        "with TableDirectory(sys.argv[1]).locked(): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert f"process {other.pid} on" in str(directory.writer())
        with pytest.raises(AlreadyFollowed, match=f"process {other.pid} on .* stop that first"):
            with directory.locked():
                pass
        other.kill()  # the lock goes with its process
    assert directory.writer() is None
    with directory.locked():
        assert directory.writer() is not None


def test_what_a_table_is_cannot_be_changed_and_how_it_is_filled_can(tmp_path: Path) -> None:
    directory = TableDirectory(tmp_path)
    there = spec(compact_every=3)
    check_same(directory, there, asdict(spec(compact_every=9, name_server="127.0.0.1:9999")))
    for change in ({"topic": "other"}, {"decode": "text"}, {"partition_by": "date"}):
        with pytest.raises(SpecMismatch, match="cannot be changed"):
            check_same(directory, there, change)


def test_a_table_that_may_only_be_read_is_not_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = TableDirectory(tmp_path)
    with directory.locked():
        pass
    plain = Path.open

    def only_read(place: Path, mode: str = "r", *more: Any) -> Any:
        if set(mode) & set("wax+"):
            raise OSError(errno.EROFS, "Read-only file system", str(place))
        return plain(place, mode, *more)

    monkeypatch.setattr(Path, "open", only_read)
    assert directory.writer() is None
