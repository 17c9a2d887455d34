from __future__ import annotations

from rocketpipe.proxy.http2 import frames
from rocketpipe.proxy.http2.frames import ErrorCode


def test_frames_are_as_the_standard_writes_them() -> None:
    assert frames.frame(frames.DATA, 1, 3, b"abc") == b"\0\0\3\0\1\0\0\0\3abc"
    assert len(frames.frame(frames.DATA, 0, 1, bytes(70_000))) == 70_009
    assert frames.settings({3: 100}) == b"\0\0\6\4\0\0\0\0\0\0\3\0\0\0\x64"
    assert frames.window(1, 5) == b"\0\0\4\x08\0\0\0\0\1\0\0\0\5"
    assert frames.reset(7, ErrorCode.CANCEL) == b"\0\0\4\3\0\0\0\0\7\0\0\0\x08"
    said = frames.goaway(9, ErrorCode.ENHANCE_YOUR_CALM, "x" * 1000)
    assert said[9:17] == b"\0\0\0\x09\0\0\0\x0b"
    assert len(said) == 9 + 8 + 256
