"""What readers of streams leave unread, all together: beyond a bound nobody is handed more.

One that takes nothing is dropped by its connection (``rpc.server``); this is about many at once.
"""

from __future__ import annotations

from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.http2.receiver import Unread
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.v2 import messaging_pb2 as pb


class SlowReaders:
    """All streams that wait for their readers."""

    def __init__(self, config: ProxyConfig, unread: Unread) -> None:
        self._config = config
        self.unread = unread

    def check_room(self) -> None:
        """Refuse to hand out more while readers leave too much.

        Raises:
            Refused: They do.
        """
        if self.unread.bytes >= self._config.max_unread_bytes:
            raise Refused(
                pb.TOO_MANY_REQUESTS, "clients leave too much unread: ask again a little later"
            )
