"""Changes beside a table, and which of them belong to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.tables.change_journal import ChangeJournal, JournalClosed
from rocketpipe.store.files.disk import Disk


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "config" / "consumerOffset.json"


def loaded(table: Path, crc: int | None) -> list[bytes]:
    return list(ChangeJournal(Disk(), table).load(crc))


def test_changes_belong_to_the_table_they_follow_and_to_no_other(table: Path) -> None:
    journal = ChangeJournal(Disk(), table)
    journal.begin(1)
    journal.add([b"[1]", b"[2]"])
    assert loaded(table, 1) == [b"[1]", b"[2]"]
    assert loaded(table, 2) == []
    assert loaded(table, None) == []
    journal.close()


def test_a_new_journal_goes_on_where_the_last_one_ended(table: Path) -> None:
    journal = ChangeJournal(Disk(), table)
    journal.begin(1)
    journal.add([b"[1]"])
    journal.begin(1)
    journal.add([b"[2]"])
    assert loaded(table, 1) == [b"[1]", b"[2]"]
    journal.follow(9)  # a whole table that has everything up to the second journal
    assert loaded(table, 9) == [b"[2]"]
    assert loaded(table, 1) == [b"[1]", b"[2]"], "the version before needs both"
    journal.drop_old()
    assert loaded(table, 1) == [b"[1]", b"[2]"]
    journal.begin(9)
    journal.follow(10)
    journal.drop_old()
    assert loaded(table, 9) == [b"[2]"]
    assert loaded(table, 1) == []
    journal.close()


def test_another_run_begins_a_journal_of_its_own(table: Path) -> None:
    for number in range(3):
        journal = ChangeJournal(Disk(), table)
        list(journal.load(1))
        journal.begin(1)
        journal.add([b"[%d]" % number])
        journal.close()
    assert loaded(table, 1) == [b"[0]", b"[1]", b"[2]"]


def test_blocks_of_another_journal_are_not_read_as_ones_own(table: Path) -> None:
    journal = ChangeJournal(Disk(), table)
    journal.begin(1)
    journal.add([b"[1]"])
    journal.close()
    first = table.with_name("consumerOffset.journal.1")
    table.with_name("consumerOffset.journal.2").write_bytes(first.read_bytes())
    assert loaded(table, 1) == [b"[1]"]


def test_every_flipped_bit_ends_the_journal_before_it(table: Path) -> None:
    journal = ChangeJournal(Disk(), table)
    journal.begin(1)
    journal.add([b"[1]", b"[2]"])
    journal.close()
    path = table.with_name("consumerOffset.journal.1")
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert loaded(table, 1) in ([], [b"[1]"])


def test_a_journal_that_is_closed_follows_nothing(table: Path) -> None:
    journal = ChangeJournal(Disk(), table)
    journal.begin(1)
    journal.drop_all()
    assert not journal.is_open
    with pytest.raises(JournalClosed):
        journal.follow(2)
    assert list(table.parent.iterdir()) == []
