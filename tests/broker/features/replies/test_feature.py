"""A broker with this feature answers replies."""

from __future__ import annotations

from rocketpipe.broker.features.replies.feature import replies
from rocketpipe.broker.features.replies.handlers import ReplyHandlers
from rocketpipe.broker.roles.duties import FEATURES
from rocketpipe.protocol.requests.sending import SendReply
from rocketpipe.remoting.router import handled_requests


def test_replies_are_part_of_every_broker() -> None:
    assert replies in FEATURES
    assert handled_requests(ReplyHandlers) == [SendReply]
