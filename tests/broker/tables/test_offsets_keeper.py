"""Places of groups that are too many to be written whenever one changes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.offsets_keeper import OLD_MS, OffsetsKeeper
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut

PATH = Path("/config/consumerOffset.json")
Place = tuple[str, str, int]


class Kept:
    """A table, its keeper, and what others find on the disk."""

    def __init__(self, disk: Disk, path: Path = PATH, *, few: int = 3) -> None:
        self.clock = ManualClock()
        self.table = OffsetTable()
        self.keeper = OffsetsKeeper(
            disk, path, self.table, self.clock, few=few, long_journal=1 << 20
        )
        self.keeper.load()

    def commit(self, number: int, offset: int) -> None:
        self.table.commit(f"g{number % 3}", f"t{number}", number, QueueOffset(offset))

    def places(self) -> dict[Place, int]:
        return {(group, topic, queue): at for group, topic, queue, at in self.table.all()}


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / PATH.name


def test_few_places_are_written_as_a_whole_and_there_is_no_journal(path: Path) -> None:
    kept = Kept(Disk(), path)
    for offset in (1, 2):
        kept.commit(0, offset)
        kept.keeper.writer()()
    assert names(path) == ["consumerOffset.json", "consumerOffset.json.bak"]
    assert Kept(Disk(), path).places() == kept.places()


def test_of_many_places_only_what_changed_is_written(path: Path) -> None:
    kept = Kept(Disk(), path)
    for number in range(1000):
        kept.commit(number, 5)
    kept.keeper.save()
    text = path.read_bytes()
    kept.commit(7, 8)
    kept.table.forget_topic("t9")
    kept.keeper.writer()()
    assert path.read_bytes() == text
    (journal,) = path.parent.glob("*.journal.*")
    assert journal.stat().st_size < 200
    again = Kept(Disk(), path)
    assert again.places() == kept.places()
    assert again.table.committed("g1", "t7", 7) == 8
    assert again.table.committed("g0", "t9", 9) is None
    assert len(again.table) == 999


def test_a_stop_leaves_the_whole_table_and_nothing_else(path: Path) -> None:
    kept = Kept(Disk(), path)
    for number in range(10):
        kept.commit(number, 5)
        kept.keeper.writer()()
    kept.keeper.save()
    assert names(path) == ["consumerOffset.json", "consumerOffset.json.bak"]
    assert Kept(Disk(), path).places() == kept.places()
    assert not kept.keeper.is_behind


def test_the_text_is_what_a_whole_save_of_few_would_have_written(path: Path) -> None:
    few, many = Kept(Disk(), path, few=100), Kept(Disk(), path.with_name("many.json"))
    for kept in (few, many):
        for number in range(10):
            kept.commit(number, number)
        kept.table.commit('"é\\', "t@x", 0, QueueOffset(1))
        kept.table.commit('"é\\', "t", 1, QueueOffset(1))
        kept.keeper.save()
    assert path.with_name("many.json").read_bytes() == path.read_bytes()


async def test_the_whole_table_is_renewed_when_it_is_old_and_the_journals_go_with_it(
    path: Path,
) -> None:
    kept = Kept(Disk(), path)
    for number in range(10):
        kept.commit(number, 1)
    kept.keeper.save()
    assert not kept.keeper.wants_whole
    for offset in range(2, 6):
        kept.commit(3, offset)
        kept.keeper.writer()()
        assert not kept.keeper.wants_whole
        await kept.clock.advance(OLD_MS + 1)
        assert kept.keeper.wants_whole
        kept.keeper.renew()
        assert not kept.keeper.wants_whole
        # One journal for the table, one for its previous version.
        assert len(list(path.parent.glob("*.journal.*"))) <= 2
    for journal in path.parent.glob("*.journal.*"):
        journal.unlink()
    assert Kept(Disk(), path).places() == kept.places()


def test_what_changes_while_the_table_is_renewed_is_there_again(path: Path) -> None:
    kept = Kept(Disk(), path)
    for number in range(10):
        kept.commit(number, 1)
    kept.keeper.writer()()
    whole_pieces = kept.table.pieces

    def interrupted(now_ms: int) -> object:
        for piece in whole_pieces(now_ms):
            yield piece
            kept.commit(0, kept.places()["g0", "t0", 0] + 1)
            kept.table.forget_topic("t4")
            kept.keeper.writer()()

    kept.table.pieces = interrupted  # type: ignore[method-assign,assignment]
    kept.keeper.renew()
    again = Kept(Disk(), path)
    assert again.places() == kept.places()
    assert ("g1", "t4", 4) not in again.places()


def test_a_table_that_another_program_wrote_is_taken_as_it_is(path: Path) -> None:
    kept = Kept(Disk(), path)
    for number in range(10):
        kept.commit(number, 5)
        kept.keeper.writer()()
    path.write_text('{"offsetTable":{"t1@g1":{1:2}}}')
    again = Kept(Disk(), path)
    assert again.places() == {("g1", "t1", 1): 2}
    for number in range(10):
        again.commit(number, 7)
    again.keeper.writer()()
    assert Kept(Disk(), path).places() == again.places()


def test_the_previous_version_has_its_journals_too(path: Path) -> None:
    kept = Kept(Disk(), path)
    for number in range(10):
        kept.commit(number, 5)
    kept.keeper.save()
    for offset in (6, 7, 8):
        kept.commit(1, offset)
        kept.keeper.writer()()
        kept.keeper.renew()
    kept.commit(2, 9)
    kept.keeper.writer()()
    path.write_bytes(b"damaged")
    assert Kept(Disk(), path).places() == kept.places()


def test_a_torn_journal_is_read_up_to_its_last_whole_block(path: Path) -> None:
    kept = Kept(Disk(), path)
    for number in range(10):
        kept.commit(number, 5)
    kept.keeper.save()
    kept.commit(1, 6)
    kept.keeper.writer()()
    before = kept.places()
    (journal,) = path.parent.glob("*.journal.*")
    good = journal.stat().st_size
    kept.commit(1, 7)
    kept.keeper.writer()()
    data = journal.read_bytes()
    for cut in range(good, len(data)):
        journal.write_bytes(data[:cut])
        assert Kept(Disk(), path).places() == before
    journal.write_bytes(data)
    assert Kept(Disk(), path).places() == kept.places()


def test_a_journal_that_the_disk_cannot_read_keeps_no_table_from_being_loaded() -> None:
    disk = SimDisk()
    kept = Kept(disk)
    for number in range(10):
        kept.commit(number, 1)
    kept.keeper.writer()()
    before = kept.places()
    kept.commit(0, 2)
    kept.keeper.writer()()
    disk.fail(only=["read"], path=".journal.", times=100)
    again = Kept(disk)
    assert again.places() == before
    disk.heal()
    again.commit(1, 3)
    again.keeper.writer()()
    assert Kept(disk).places()["g1", "t1", 1] == 3


def test_a_journal_that_could_not_be_written_is_followed_by_another() -> None:
    disk = SimDisk(0)
    kept = Kept(disk)
    for number in range(10):
        kept.commit(number, 5)
    kept.keeper.save()
    kept.commit(1, 6)
    kept.keeper.writer()()
    kept.commit(2, 7)
    disk.fail(only=["write"])
    with pytest.raises(DiskError):
        kept.keeper.writer()()
    disk.heal()
    kept.commit(3, 8)
    kept.keeper.writer()()
    assert Kept(disk).places() == kept.places()


@pytest.mark.parametrize("seed", range(60))
def test_whenever_the_power_goes_no_place_is_older_than_when_it_was_saved(seed: int) -> None:
    chance = random.Random(seed)
    disk = SimDisk(seed)
    kept = Kept(disk)
    #: What each place was, in order, and from which of these on it was not saved.
    history: dict[Place, list[int | None]] = {}
    saved: dict[Place, int] = {}
    offset = 0

    def note(place: Place, value: int | None) -> None:
        history.setdefault(place, [None]).append(value)

    for _ in range(12):
        disk.cut_power(at=chance.randrange(1, 40))
        try:
            while True:
                for _ in range(chance.randrange(6)):
                    number, offset = chance.randrange(8), offset + 1
                    kept.commit(number, offset)
                    note((f"g{number % 3}", f"t{number}", number), offset)
                if chance.random() < 0.2:
                    number = chance.randrange(8)
                    kept.table.forget_topic(f"t{number}")
                    note((f"g{number % 3}", f"t{number}", number), None)
                act = chance.random()
                if act < 0.6:
                    kept.keeper.writer()()
                elif act < 0.85:
                    kept.keeper.renew()
                    continue
                else:
                    kept.keeper.save()
                saved = {place: len(values) - 1 for place, values in history.items()}
        except (PowerCut, DiskError):
            disk.crash()
        kept = Kept(disk)
        found = kept.places()
        for place, values in history.items():
            assert found.get(place) in values[saved.get(place, 0) :], place
            del values[: len(values)]
            values.append(found.get(place))
        saved = dict.fromkeys(history, 0)
