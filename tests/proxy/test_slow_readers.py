from __future__ import annotations

import pytest

from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.http2.receiver import Unread
from rocketpipe.proxy.slow_readers import SlowReaders
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.v2 import messaging_pb2 as pb


def test_nobody_is_handed_more_while_too_much_is_left() -> None:
    unread = Unread()
    readers = SlowReaders(ProxyConfig(max_unread_bytes=1000), unread)
    readers.check_room()
    unread.bytes = 1000
    with pytest.raises(Refused) as refused:
        readers.check_room()
    assert refused.value.code == pb.TOO_MANY_REQUESTS
    unread.bytes = 999
    readers.check_room()
