"""Whether a checkpoint and a table belong together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketpipe.pipeline.planning.offsets import UnreadableOffset
from rocketpipe.tables.checkpoint import Checkpoint
from rocketpipe.tables.errors import CheckpointMismatch


def made(place: Path, *, planned: int, done: int, owner: str = "me") -> Checkpoint:
    checkpoint = Checkpoint(place)
    checkpoint.claim(owner)
    for log, last in (("offsets", planned), ("commits", done)):
        (place / log).mkdir()
        for batch in range(last + 1):
            (place / log / str(batch)).touch()
            (place / log / f".{batch}.crc").touch()
    return checkpoint


def test_the_last_batches_are_read_from_sparks_files(tmp_path: Path) -> None:
    checkpoint = made(tmp_path / "c", planned=11, done=10)
    assert (checkpoint.planned, checkpoint.done) == (11, 10)
    assert (Checkpoint(tmp_path / "none").planned, Checkpoint(tmp_path / "none").done) == (-1, -1)


@pytest.mark.parametrize(
    ("planned", "done", "has"),
    [
        (-1, -1, None),  # nothing yet
        (0, -1, None),  # died before the first commit
        (0, -1, 0),  # committed, and Spark not told
        (5, 4, 4),  # files written, and not committed
        (5, 4, 5),
        (5, 5, 5),  # at rest
    ],
)
def test_every_death_leaves_what_fits(
    tmp_path: Path, planned: int, done: int, has: int | None
) -> None:
    made(tmp_path / "c", planned=planned, done=done).check("lake", "me", has)


@pytest.mark.parametrize(
    ("planned", "done", "has", "said"),
    [
        (-1, -1, 3, "checkpoint was lost"),
        (2, 2, 3, "checkpoint was lost or is an older copy"),
        (5, 5, 4, "table was lost or is an older copy"),
        (5, 5, None, "table was lost"),
    ],
)
def test_what_would_lose_rows_or_double_them_is_refused(
    tmp_path: Path, planned: int, done: int, has: int | None, said: str
) -> None:
    with pytest.raises(CheckpointMismatch, match=said):
        made(tmp_path / "c", planned=planned, done=done).check("lake", "me", has)


def test_a_checkpoint_of_another_table_is_refused(tmp_path: Path) -> None:
    checkpoint = made(tmp_path / "c", planned=1, done=1, owner="other")
    with pytest.raises(CheckpointMismatch, match="is another table's"):
        checkpoint.check("lake", "me", 1)


def test_drafts_of_a_spark_that_died_are_removed_when_they_are_old(tmp_path: Path) -> None:
    checkpoint = made(tmp_path / "c", planned=0, done=0)
    draft = tmp_path / "c" / "offsets" / ".1.6d6c.tmp"
    draft.touch()
    assert checkpoint.clean() == 0
    os.utime(draft, (0, 0))
    assert checkpoint.clean() == 1
    assert not draft.exists()
    assert checkpoint.planned == 0


def test_the_end_of_a_batch_is_read_from_sparks_files(tmp_path: Path) -> None:
    checkpoint = made(tmp_path / "c", planned=1, done=0)
    offsets = (
        '{"v": 1, "topics": {"orders": {"a": {"0": 42}}}, "from": {"orders": {"a": {"0": 7}}}}'
    )
    (tmp_path / "c" / "offsets" / "0").write_text(f"v1\n{{}}\n{offsets}\n")
    found = checkpoint.offset(0)
    assert found is not None
    assert (list(found.ends.values()), list(found.begins.values())) == ([42], [7])
    assert checkpoint.offset(7) is None
    with pytest.raises(UnreadableOffset):
        checkpoint.offset(1)


def test_who_dies_while_it_says_whose_a_checkpoint_is_leaves_it_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = made(tmp_path / "c", planned=3, done=3)

    def full(place: Path, *_: object) -> int:
        place.open("w").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    checkpoint.claim("me")
    with pytest.raises(OSError, match="No space"):
        checkpoint.claim("another")
    checkpoint.check("lake", "me", 3)
