from __future__ import annotations

import pytest

from rocketpipe.proxy.http2.frames import ErrorCode, Http2Fault
from rocketpipe.proxy.http2.idle_frames import MOST, WITHIN_S, IdleFrames


def test_too_many_in_a_while_are_the_end_and_as_many_in_longer_are_not() -> None:
    now_s = 0.0
    idle = IdleFrames(lambda: now_s)
    for _ in range(MOST):
        idle.count("pings")
    now_s += WITHIN_S
    for _ in range(MOST + 1):
        idle.count("pings")
    with pytest.raises(Http2Fault) as fault:
        idle.count("pings")
    assert fault.value.code is ErrorCode.ENHANCE_YOUR_CALM


def test_what_measures_data_is_counted_once_there_is_none() -> None:
    idle = IdleFrames(lambda: 0.0)
    for _ in range(3 * MOST):
        idle.sent_data()
        idle.count_measuring("pings")
    for _ in range(MOST):
        idle.count_measuring("pings")
    with pytest.raises(Http2Fault):
        idle.count_measuring("pings")
