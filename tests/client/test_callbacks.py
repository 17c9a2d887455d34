"""What brokers say to clients reaches those whom it concerns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.client.session_parts import Part

from rocketpipe.client.callbacks import CallbackHandlers
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.requests.callbacks import (
    NotifyConsumerIdsChanged,
    ResetConsumerClientOffset,
    write_reset,
)
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Call, Router

QUEUE = MessageQueue(topic="t", broker_name="a", queue_id=1)


def handlers(*members: Part) -> CallbackHandlers:
    return CallbackHandlers(lambda: members)


def call() -> Call:
    peer = PeerConnection(Router().answer, limits=ConnectionLimits())
    return Call(peer, Command(code=40, opaque=1))


async def test_a_change_of_members_concerns_the_groups_own() -> None:
    ours, other = Part(consumes=["g", "h"]), Part(consumes=["i"], produces=["g"])
    await handlers(ours, other).ids_changed(NotifyConsumerIdsChanged(consumer_group="g"), call())
    assert (ours.changed_groups, other.changed_groups) == (["g"], [])


@pytest.mark.parametrize("as_list", [False, True])
async def test_a_reset_names_the_queues_of_its_topic(as_list: bool) -> None:
    ours, other = Part(consumes=["g"]), Part(consumes=["h"])
    elsewhere = MessageQueue(topic="u", broker_name="a", queue_id=1)
    none = MessageQueue(topic="t", broker_name="a", queue_id=2)
    offsets = {QUEUE: QueueOffset(7), elsewhere: QueueOffset(8), none: QueueOffset(-1)}
    request = ResetConsumerClientOffset(
        topic="t", group="g", timestamp=0, body=write_reset(offsets, as_list=as_list)
    )
    await handlers(ours, other).reset(request, call())
    assert ours.resets == [("g", {QUEUE: 7})]
    assert other.resets == []


async def test_a_reset_that_cannot_be_read_is_refused() -> None:
    request = ResetConsumerClientOffset(topic="t", group="g", timestamp=0, body=b"{")
    with pytest.raises(RequestRejected):
        await handlers(Part(consumes=["g"])).reset(request, call())


async def test_members_that_take_no_resets_are_passed_over() -> None:
    class Plain:
        def producer_groups(self) -> Sequence[str]:
            return ()

        consumers = Part(consumes=["g"]).consumers

        def topics(self) -> Sequence[str]:
            return ()

        def on_ids_changed(self, group: str) -> None: ...

        def on_routes_changed(self, topic: str) -> None: ...

    request = ResetConsumerClientOffset(
        topic="t", group="g", timestamp=0, body=write_reset({QUEUE: QueueOffset(7)})
    )
    heard = Part(consumes=["g"])
    await CallbackHandlers(lambda: (Plain(), heard)).reset(request, call())
    assert heard.resets == [("g", {QUEUE: 7})]
