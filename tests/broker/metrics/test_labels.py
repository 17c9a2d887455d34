"""Labels as RocketMQ has them."""

from __future__ import annotations

import pytest

from rocketpipe.broker.metrics.labels import is_system, version_name
from rocketpipe.protocol.codes import PeerVersion


@pytest.mark.parametrize(
    "version", [each for each in PeerVersion if PeerVersion.V4_0_0 <= each < 612]
)
def test_versions_have_the_names_that_rocketmq_gives_them(version: PeerVersion) -> None:
    assert version_name(version) == version.name.lower()


def test_versions_beyond_what_is_known_are_told_as_such() -> None:
    assert version_name(PeerVersion.HIGHER_VERSION) == "higher_version"
    assert version_name(PeerVersion.V3_4_9) == "v3"


def test_topics_and_groups_of_rocketmqs_own_are_system() -> None:
    assert is_system("SCHEDULE_TOPIC_XXXX") == "true"
    assert is_system("orders", "CID_RMQ_SYS_TRANS") == "true"
    assert is_system("orders", "shop") == "false"
