"""A broker with this wing answers replies."""

from __future__ import annotations

from rocketpipe.broker.broker import WINGS
from rocketpipe.broker.handlers.replies import ReplyHandlers
from rocketpipe.broker.wings.replies import replies
from rocketpipe.protocol.requests.sending import SendReply
from rocketpipe.remoting.router import handled_requests


def test_replies_are_part_of_every_broker() -> None:
    assert replies in WINGS
    assert handled_requests(ReplyHandlers) == [SendReply]
