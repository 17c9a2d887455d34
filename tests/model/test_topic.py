from __future__ import annotations

import pytest

from rocketpipe.errors import InvalidName
from rocketpipe.model.topic import (
    DataVersion,
    MessageType,
    Perm,
    TopicSettings,
    new_attributes,
)

FIFO = TopicSettings(name="T", attributes={"message.type": "FIFO", "queue.type": "SimpleCQ"})


def test_a_topic_may_be_read_and_written_unless_told_otherwise() -> None:
    assert TopicSettings(name="T").perm == Perm.READ | Perm.WRITE == 6


def test_every_change_makes_a_version_of_its_own() -> None:
    first = DataVersion().after_change(now_ms=5)
    second = first.after_change(now_ms=5)
    assert first != second
    assert second == DataVersion(counter=2, timestamp=5)


def test_attributes_of_a_new_topic_are_read_from_their_text() -> None:
    assert new_attributes("") == {}
    assert new_attributes("+message.type=FIFO,+reserve.time=-1,+cleanup.policy=DELETE") == {
        "message.type": "FIFO",
        "reserve.time": "-1",
        "cleanup.policy": "DELETE",
    }


def test_a_schema_may_have_commas() -> None:
    changed = FIFO.altered(
        "-message.type,+body.schema=city STRING, price DECIMAL(9,2),+reserve.time=1"
    )
    assert changed["body.schema"] == "city STRING, price DECIMAL(9,2)"
    assert changed["reserve.time"] == "1"
    assert "message.type" not in changed


def test_a_change_sets_and_removes_and_leaves_the_rest() -> None:
    changed = FIFO.altered("+reserve.time=3600000,-message.type")
    assert changed == {"queue.type": "SimpleCQ", "reserve.time": "3600000"}
    assert FIFO.attributes["message.type"] == "FIFO"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("message.type=FIFO", "neither"),
        ("+message.type", "neither"),
        ("-message.type=FIFO", "neither"),
        ("+message.type=BATCH", "one of"),
        ("+reserve.time=-2", "whole number"),
        ("+reserve.time=1_0", "whole number"),
        ("+reserve.time=" + "9" * 50, "whole number"),
        ("+body.schema= ", "columns and their types"),
        ("+body.schema=a\nINT", "columns and their types"),
        ("+body.schema=" + "a" * 4097, "4096 characters"),
        ("+colour=red", "not known"),
        ("-reserve.time", "not there"),
        ("+message.type=FIFO,+message.type=DELAY", "twice"),
        ("+queue.type=BatchCQ", "cannot change"),
        ("-queue.type", "cannot change"),
        (",", "neither"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change: str, reason: str) -> None:
    with pytest.raises(InvalidName, match=reason):
        FIFO.altered(change)


def test_nothing_can_be_removed_from_a_new_topic() -> None:
    with pytest.raises(InvalidName, match="neither"):
        new_attributes("-message.type")


@pytest.mark.parametrize(
    ("attributes", "meaning"),
    [
        ({}, MessageType.NORMAL),
        ({"message.type": "DELAY"}, MessageType.DELAY),
        ({"message.type": "of a later version"}, MessageType.UNSPECIFIED),
    ],
)
def test_a_topic_knows_what_it_is_for(attributes: dict[str, str], meaning: MessageType) -> None:
    assert TopicSettings(name="T", attributes=attributes).message_type is meaning
