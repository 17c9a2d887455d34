from __future__ import annotations

from rocketpipe.record import layout


def test_the_head_ends_where_the_table_says() -> None:
    assert {bits: head.size for bits, head in layout.HEADS.items()} == {
        0: 88,
        16: 100,
        32: 100,
        48: 112,
    }
    assert layout.MIN_RECORD_BYTES == 91


def test_the_magics_are_the_words_of_the_table() -> None:
    words = [layout.MAGIC_V1, layout.MAGIC_V2, layout.BLANK_MAGIC]
    assert [word & 0xFFFFFFFF for word in words] == [0xDAA320A7, 0xDAA320AB, 0xCBD43194]


def test_the_largest_record_has_room_for_all_its_parts() -> None:
    overhead = layout.HEADS[48].size + 2 + layout.MAX_TOPIC_BYTES + 2 + layout.MAX_PROPERTIES_BYTES
    assert layout.MAX_BODY_BYTES == 4_194_304
    assert layout.MAX_BODY_BYTES + overhead <= layout.MAX_RECORD_BYTES
