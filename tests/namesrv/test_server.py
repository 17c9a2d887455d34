"""A NameServer's own timers."""

from __future__ import annotations

import pytest

from rocketpipe.errors import RequestRejected
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic, RegisterBroker
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing import ManualClock


async def test_a_broker_that_stays_connected_but_silent_expires_after_two_minutes() -> None:
    clock = ManualClock()
    async with name_server(port=0, clock=clock) as address, Caller() as caller:
        body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"topicName":"t"}}}}'
        await caller.call(
            address,
            RegisterBroker(
                broker_name="a",
                broker_addr="10.0.0.1:10911",
                cluster_name="c",
                ha_server_addr="",
                broker_id=0,
                body=body,
            ),
        )
        await clock.advance(120_000)
        await caller.call(address, GetRouteInfoByTopic(topic="t"))
        await clock.advance(5_000)
        with pytest.raises(RequestRejected):
            await caller.call(address, GetRouteInfoByTopic(topic="t"))
