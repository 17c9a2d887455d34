"""Numbers that RocketMQ's own enums have; a wrong one is heard by every peer."""

from __future__ import annotations

import pytest

from rocketpipe.protocol.codes import OUR_VERSION, Language, PeerVersion, RequestCode, ResponseCode


@pytest.mark.parametrize(
    ("version", "ordinal"),
    [
        (PeerVersion.V3_0_7_SNAPSHOT, 28),
        (PeerVersion.V3_0_11, 37),
        (PeerVersion.V3_1_8_SNAPSHOT, 62),
        (PeerVersion.V3_4_9, 121),
        (PeerVersion.V4_1_0_SNAPSHOT, 232),
        (PeerVersion.V4_9_3, 399),
        (PeerVersion.V4_9_4, 401),
        (PeerVersion.V4_9_8, 409),
        (PeerVersion.V5_0_0, 413),
        (PeerVersion.V5_3_1, 475),
        (PeerVersion.V5_3_3, 479),
        (PeerVersion.HIGHER_VERSION, 612),
    ],
)
def test_versions_are_the_ordinals_of_mqversion(version: PeerVersion, ordinal: int) -> None:
    assert version == ordinal


def test_we_announce_strict_routes_and_no_go_away() -> None:
    assert PeerVersion.V4_9_4 <= OUR_VERSION <= PeerVersion.V5_3_1


def test_languages_are_numbered_in_order() -> None:
    assert [language.value for language in Language] == list(range(14))
    assert Language.PYTHON == 3
    assert Language.NODE_JS == 13


def test_no_code_has_two_names() -> None:
    for codes in (RequestCode, ResponseCode):
        assert len(codes.__members__) == len(set(codes))
