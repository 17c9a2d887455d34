from __future__ import annotations

import pytest

from rocketpipe.proxy.translation.times import ms_of, set_ms
from rocketpipe.proxy.v2 import messaging_pb2 as pb


@pytest.mark.parametrize("ms", [0, 1, 999, 1000, 1_700_000_000_123, -1, -1500, 2**62])
def test_times_come_back_as_they_were(ms: int) -> None:
    said = pb.SystemProperties()
    set_ms(said.born_timestamp, ms)
    set_ms(said.invisible_duration, ms)
    assert ms_of(said.born_timestamp) == ms_of(said.invisible_duration) == ms
    assert 0 <= said.born_timestamp.nanos < 1_000_000_000


def test_what_a_peer_writes_is_a_number_whatever_it_is() -> None:
    said = pb.SystemProperties()
    said.born_timestamp.seconds = 2**62
    said.born_timestamp.nanos = -5
    assert ms_of(said.born_timestamp) == 2**62 * 1000 - 1
