"""Which consumer groups a broker knows."""

from __future__ import annotations

import logging

import pytest

from rocketpipe.broker.tables.groups import FORBID_READ, GroupsFile, GroupTable
from rocketpipe.broker.tables.limits import TableFull, TableLimits
from rocketpipe.errors import InvalidName
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import PREDEFINED_GROUPS


def test_rocketmqs_own_groups_are_there_from_the_start() -> None:
    assert GroupTable().all().keys() == PREDEFINED_GROUPS


def test_a_group_that_comes_for_the_first_time_gets_the_usual_settings() -> None:
    table = GroupTable()
    before = table.version
    found = table.ensure("billing", now_ms=5)
    assert found == GroupSettings(name="billing")
    assert table.version.counter == before.counter + 1
    table.update(GroupSettings(name="billing", max_retries=3), now_ms=6)
    again = table.ensure("billing", now_ms=7)
    assert again is not None
    assert again.max_retries == 3
    assert table.version.timestamp == 6


def test_putting_the_same_is_no_change() -> None:
    table = GroupTable()
    table.update(GroupSettings(name="billing"), now_ms=5)
    before = table.version
    table.update(GroupSettings(name="billing"), now_ms=6)
    assert table.version == before


def test_no_group_has_an_illegal_name() -> None:
    with pytest.raises(InvalidName):
        GroupTable().update(GroupSettings(name="../x"), now_ms=5)
    with pytest.raises(InvalidName):
        GroupTable().ensure("a b", now_ms=5)


def test_a_group_that_goes_takes_what_it_was_forbidden_along() -> None:
    table = GroupTable()
    table.ensure("billing", now_ms=5)
    table.forbid("billing", "orders", 1, now_ms=6)
    assert table.forbidden("billing", "orders") == 1
    assert table.delete("billing", now_ms=7)
    assert table.get("billing") is None
    assert table.forbidden("billing", "orders") == 0
    assert table.version.timestamp == 7
    assert not table.delete("billing", now_ms=8)
    assert table.version.timestamp == 7


def test_allowing_again_leaves_nothing_behind() -> None:
    table = GroupTable()
    table.forbid("billing", "orders", 1, now_ms=5)
    table.forbid("billing", "orders", 0, now_ms=6)
    assert table.to_file().forbidden == {}
    before = table.version
    table.forbid("billing", "orders", 0, now_ms=7)
    assert table.version == before


def test_what_is_loaded_counts_and_illegal_names_are_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = GroupTable()
    changed = GroupSettings(name="TOOLS_CONSUMER", consume_enable=False)
    table.load(GroupsFile(groups={"TOOLS_CONSUMER": changed, "../x": GroupSettings(name="../x")}))
    assert table.get("TOOLS_CONSUMER") == changed
    assert table.get("../x") is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_without_auto_creation_a_group_comes_from_an_operator_or_from_rocketmq() -> None:
    table = GroupTable(auto_create=False)
    assert table.ensure("billing", now_ms=5) is None
    assert table.ensure("CID_RMQ_SYS_NEW", now_ms=5) is not None
    assert table.update(GroupSettings(name="billing"), now_ms=6)
    assert not table.update(GroupSettings(name="billing"), now_ms=7)
    assert table.ensure("billing", now_ms=7) == GroupSettings(name="billing")


def test_one_group_too_many_is_refused_and_one_that_is_there_can_change() -> None:
    table = GroupTable(limits=TableLimits(groups=len(PREDEFINED_GROUPS) + 1))
    table.ensure("billing", now_ms=5)
    with pytest.raises(TableFull, match="groups"):
        table.ensure("shipping", now_ms=5)
    assert table.update(GroupSettings(name="billing", max_retries=1), now_ms=5)


def test_what_can_be_forbidden_is_bounded() -> None:
    table = GroupTable(limits=TableLimits(groups=1, forbidden_topics=1))
    table.forbid("g", "t", FORBID_READ, now_ms=5)
    with pytest.raises(TableFull, match="topics forbidden to group g"):
        table.forbid("g", "u", FORBID_READ, now_ms=5)
    with pytest.raises(TableFull, match="forbidden something"):
        table.forbid("h", "t", FORBID_READ, now_ms=5)
    assert table.forbidden("g", "t") == FORBID_READ
