"""Clients, as operators see them; who runs and answers is in the scenarios."""

from __future__ import annotations

import pytest
from tests.client.support.session_parts import Part

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.clients import NotOnline
from rocketpipe.client.session import Session
from rocketpipe.errors import InvalidName
from rocketpipe.protocol.codes import Language

pytestmark = pytest.mark.scenario


async def test_members_are_found_with_their_brokers(admin: Admin, session: Session) -> None:
    await admin.topics.create("t")
    member = Part(produces=["makers"], consumes=["g"], topics=["t"])
    session.join(member)
    await session.routes.get("t")
    await session.beat()
    group = await admin.clients.consumers("g")
    (one,) = group.members
    assert (one.client_id, one.brokers) == (session.client_id, ("broker-a",))
    assert one.language is Language.PYTHON
    assert group.model == "CLUSTERING"
    (maker,) = await admin.clients.producers("makers")
    assert maker.client_id == session.client_id
    assert [each.client_id for each in (await admin.clients.all_producers("broker-a"))["makers"]]
    # No consumer of ours is behind it that could tell more than its heartbeats do.
    told = await admin.clients.running_info("g", session.client_id)
    assert told.properties["PROP_CONSUME_TYPE"] == member.consumers()[0].consume_type
    assert (told.queues, told.subscriptions) == ({}, ())
    assert await admin.clients.places("g", "t") == {session.client_id: {}}
    await session.leave(member)


async def test_who_is_not_there_is_named(admin: Admin) -> None:
    with pytest.raises(NotOnline, match="group 'g' is not online"):
        await admin.clients.consumers("g")
    with pytest.raises(NotOnline, match="group 'makers' is not online"):
        await admin.clients.producers("makers")
    with pytest.raises(NotOnline, match="client 'c' of group 'g'"):
        await admin.clients.running_info("g", "c")
    with pytest.raises(NotOnline):
        await admin.clients.places("g", "t")
    with pytest.raises(InvalidName):
        await admin.clients.consume_directly("g", "c", "no id")
