"""Columns that fit a width."""

from __future__ import annotations

import pytest

from rocketpipe.cli.terminal.fitting import fitted, shortened

ID = "7F0000010A2B18B4AAC2000000000001"
TITLES = ["QUEUE", "STORED", "MESSAGE ID", "BODY"]
ROW = ["12345678", "2026-11-16 16:33:45.520+00:00", ID, "a body of many words"]
FIXED = [True, False, False, False]


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        (ID, 32, ID),
        (ID, 9, "7F00…0001"),
        (ID, 8, "7F00…001"),
        ("a body of many words", 9, "a body o…"),
    ],
)
def test_an_id_keeps_both_ends_and_other_text_its_beginning(
    text: str, width: int, short: str
) -> None:
    assert shortened(text, width) == short


def test_a_table_with_room_is_left_as_it_is() -> None:
    assert fitted(TITLES, [ROW], 100, FIXED) == [ROW]


def test_times_lose_their_milliseconds_before_anything_else_goes() -> None:
    ((_, stored, message_id, body),) = fitted(TITLES, [ROW], 81, FIXED)
    assert stored == "2026-11-16 16:33:45Z"
    assert (message_id, body) == (ID, ROW[3])


@pytest.mark.parametrize("room", [70, 60, 50])
def test_columns_give_way_but_for_numbers_and_times(room: int) -> None:
    (row,) = fitted(TITLES, [ROW], room, FIXED)
    assert sum(map(len, row)) <= room
    assert row[0] == "12345678"
    assert row[1] == "2026-11-16 16:33:45Z"


def test_where_nothing_can_go_the_terminal_has_to_wrap() -> None:
    (row,) = fitted(TITLES, [[*ROW[:3], "a body " * 10]], 10, FIXED)
    assert row[2] == ID, "half an id would not make it fit either"
    assert list(map(len, row)) == [8, 20, 32, 40]
    assert fitted(TITLES, [], 10, FIXED) == []
