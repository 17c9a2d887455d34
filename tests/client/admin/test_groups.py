"""Groups are created, changed, deleted, listed and shown, and their members are."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.support.session_parts import Part

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.groups import GroupExists, NoGroup
from rocketpipe.client.session import Session
from rocketpipe.errors import InvalidName, RequestRejected
from rocketpipe.testing import Cluster

OLD: Any = {"retry_max_times": 3}


async def test_a_group_has_the_settings_it_was_given(admin: Admin) -> None:
    await admin.groups.create("billing", max_attempts=4, ordered=True)
    (settings,) = (await admin.groups.show("billing")).settings.values()
    assert (settings.max_retries, settings.ordered, settings.retry_queues) == (3, True, 1)
    await admin.groups.update("billing", retry_queues=2)
    (settings,) = (await admin.groups.show("billing")).settings.values()
    assert (settings.max_retries, settings.ordered, settings.retry_queues) == (3, True, 2)


async def test_a_group_is_created_once_and_changed_only_if_it_is_there(admin: Admin) -> None:
    await admin.groups.create("billing")
    with pytest.raises(GroupExists, match="update it instead"):
        await admin.groups.create("billing")
    await admin.groups.create("billing", if_missing=True, max_attempts=4)
    (settings,) = (await admin.groups.show("billing")).settings.values()
    assert settings.max_retries == 16
    await admin.groups.create("anew", if_missing=True, max_attempts=4)
    (settings,) = (await admin.groups.show("anew")).settings.values()
    assert settings.max_retries == 3
    for change in (admin.groups.create, admin.groups.update):
        with pytest.raises(TypeError, match="a group has no 'retry_max_times': use max_attempts"):
            await change("billing", **OLD)
    with pytest.raises(NoGroup, match="no group 'x' at 1 broker"):
        await admin.groups.update("x", ordered=True)
    with pytest.raises(InvalidName):
        await admin.groups.create("a b")


async def test_to_look_at_a_group_does_not_create_it(admin: Admin) -> None:
    with pytest.raises(NoGroup):
        await admin.groups.show("x")
    assert await admin.groups.names() == []


async def test_a_deleted_group_is_gone_and_may_be_deleted_again(admin: Admin) -> None:
    await admin.groups.create("billing")
    assert await admin.groups.names() == ["billing"]
    assert "TOOLS_CONSUMER" in await admin.groups.names(internal=True)
    await admin.groups.delete("billing", offsets=True)
    await admin.groups.delete("billing")
    assert await admin.groups.names() == []


async def test_members_are_told_with_their_brokers(
    admin: Admin, session: Session, servers: Cluster
) -> None:
    assert await admin.groups.members("billing") == []
    async with Session(servers.name_server) as other:
        for each in (session, other):
            each.join(Part(consumes=["billing"]))
            await each.routes.get("TBW102")
            await each.beat()
        members = await admin.groups.members("billing")
    assert [member.client_id for member in members] == sorted([session.client_id, other.client_id])
    (name,) = await admin.brokers.clusters()
    assert all(len(member.brokers) == 1 for member in members), name


async def test_a_group_can_be_kept_from_a_topic(admin: Admin) -> None:
    assert await admin.groups.may_read("billing", "orders")
    await admin.groups.let_read("billing", "orders", allowed=False)
    assert not await admin.groups.may_read("billing", "orders")
    await admin.groups.let_read("billing", "orders", allowed=True)
    assert await admin.groups.may_read("billing", "orders")
    with pytest.raises(RequestRejected):
        await admin.groups.let_read("a b", "orders", allowed=True)
