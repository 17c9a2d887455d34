from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rocketpipe.store import roster
from rocketpipe.store.errors import RosterUnreadable, StoreLocked
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.roster import FILE_NAME, WHOLE, Leaving, Member, MemberState, Roster
from rocketpipe.store.state.run_files import locked


def test_new_brokers_are_numbered_and_each_has_a_directory_of_its_name(tmp_path: Path) -> None:
    made = roster.begun("broker-a", taken=False).grown(2)

    assert [member.name for member in made.brokers] == ["broker-a-0", "broker-a-1"]
    assert made.brokers[1].root(tmp_path) == tmp_path / "broker-a-1"
    assert made.grown(2) == made


def test_the_broker_that_had_the_directory_alone_keeps_its_name_and_its_files(
    tmp_path: Path,
) -> None:
    made = roster.begun("orders", taken=True).grown(2)

    assert made.brokers == (Member("orders", 0, WHOLE), Member("orders-1", 1, "orders-1"))
    assert made.brokers[0].root(tmp_path) == tmp_path


def test_a_number_is_given_out_once(tmp_path: Path) -> None:
    made = roster.begun("broker-a", taken=False).grown(3).without("broker-a-2").grown(3)

    assert [member.number for member in made.brokers] == [0, 1, 3]
    with pytest.raises(KeyError):
        made.without("broker-a-2")


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    assert roster.load(tmp_path) is None
    assert roster.load(tmp_path / "nowhere") is None
    made = roster.begun("broker-a", taken=True).grown(3)

    made.save(tmp_path)
    made.without("broker-a-1").save(tmp_path)

    assert roster.load(tmp_path) == made.without("broker-a-1")
    assert sorted(each.name for each in tmp_path.iterdir()) == [FILE_NAME]


def test_stores_are_found_by_the_names_of_their_brokers(tmp_path: Path) -> None:
    assert roster.stores_in(tmp_path, "broker-a") == {"broker-a": tmp_path}

    roster.begun("b", taken=True).grown(2).save(tmp_path)

    assert roster.stores_in(tmp_path, "broker-a") == {"b": tmp_path, "b-1": tmp_path / "b-1"}


def test_a_flipped_bit_changes_nobody(tmp_path: Path) -> None:
    made = roster.begun("broker-a", taken=False).grown(2)
    made.save(tmp_path)
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x04
        path.write_bytes(changed)
        try:
            assert roster.load(tmp_path) == made, at  # it was in the name of the checksum
        except RosterUnreadable:
            pass


def test_one_supervises_at_a_time_and_none_where_a_broker_runs_alone(tmp_path: Path) -> None:
    with roster.claimed(tmp_path), pytest.raises(StoreLocked), roster.claimed(tmp_path):
        pass
    with roster.claimed(tmp_path):
        pass
    with locked(Disk(), StoreLayout(tmp_path)), pytest.raises(StoreLocked, match="lock is locked"):
        with roster.claimed(tmp_path):
            pass


@pytest.mark.parametrize(
    "wrong",
    [
        Roster(prefix="b", next=1, brokers=(), version=2),
        Roster(prefix="b", next=1, brokers=(Member("b", 0, ".."),)),
        Roster(prefix="b", next=1, brokers=(Member("b", 1, "."),)),
        Roster(prefix="b", next=2, brokers=(Member("b", 0, "."), Member("b", 1, "b"))),
        Roster(prefix="b", next=2, brokers=(Member("b", 0, "."), Member("c", 1, "."))),
        Roster(prefix="../b", next=1, brokers=()),
        Roster(prefix="b", next=1, brokers=(Member("b/../..", 0, "b/../.."),)),
    ],
)
def test_what_could_not_have_been_written_here_is_refused(tmp_path: Path, wrong: Roster) -> None:
    wrong.save(tmp_path)

    with pytest.raises(RosterUnreadable, match=FILE_NAME):
        roster.load(tmp_path)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"no JSON", b'{"version":1}'])
def test_what_is_no_roster_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(text)

    with pytest.raises(RosterUnreadable):
        roster.load(tmp_path)


def test_one_leaves_step_by_step(tmp_path: Path) -> None:
    made = roster.begun("b", taken=True).grown(2)
    assert {member.state for member in made.brokers} == {MemberState.SERVING}
    draining = made.with_state("b", MemberState.DRAINING)
    draining.save(tmp_path)
    assert roster.load(tmp_path) == draining
    assert [member.state for member in draining.brokers] == ["draining", "serving"]
    leaving = draining.with_leaving("b", delete=True)
    leaving.save(tmp_path)
    assert roster.load(tmp_path) == leaving
    assert leaving.leaving == (Leaving("b", WHOLE, delete=True),)
    assert leaving.member("b") is None
    assert roster.stores_in(tmp_path, "b") == {"b-1": tmp_path / "b-1"}
    assert leaving.with_left("b").leaving == ()
    with pytest.raises(KeyError):
        leaving.with_leaving("b", delete=False)


def test_only_one_at_a_time_changes_who_lives_there(tmp_path: Path) -> None:
    with roster.changing(tmp_path):
        with pytest.raises(StoreLocked), roster.changing(tmp_path):
            raise AssertionError("somebody else does")
    with roster.changing(tmp_path):
        pass


@pytest.mark.parametrize("directory", ["..", "/etc", "other"])
def test_files_of_others_are_never_set_aside(tmp_path: Path, directory: str) -> None:
    made = roster.begun("b", taken=False).grown(2)
    replace(made, leaving=(Leaving("b-9", directory),)).save(tmp_path)
    with pytest.raises(RosterUnreadable, match="cannot be in"):
        roster.load(tmp_path)
