"""Which servers have users, and what is made of what they answer."""

from __future__ import annotations

import pytest
from tests.client.admin.support.guarded import Guarded

from rocketpipe.client.admin.access.servers import (
    Change,
    ClusterServers,
    NoAccessControl,
    UserRefused,
    ask_all,
    change_all,
    seen,
)
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.fleet import Fleet, PartlyDone
from rocketpipe.errors import ConnectionLost, RequestRejected, rejection
from rocketpipe.protocol.requests.users import ListUsers
from rocketpipe.testing import Cluster


async def test_every_name_server_and_broker_is_asked(fleet: Fleet, servers: Cluster) -> None:
    (name,) = await fleet.brokers()
    found = ClusterServers(fleet)
    assert await found.waves() == [[f"NameServer {servers.name_server}", name]]
    with pytest.raises(RequestRejected):
        await found.call(name, ListUsers())
    assert await found.at({"one": servers.broker}).waves() == [["one"]]


async def test_servers_that_let_everybody_in_have_no_users(admin: Admin) -> None:
    with pytest.raises(NoAccessControl, match="no server here has access control"):
        await admin.users.all()
    with pytest.raises(NoAccessControl):
        await admin.users.create("alice", "the-secret-of-alice")
    with pytest.raises(NoAccessControl):
        await admin.policies.all()


async def test_one_wave_comes_after_the_other() -> None:
    place, order = Guarded("a b", "c", plain="b"), list[str]()

    async def act(server: str) -> bool:
        order.append(server)
        if server == "b":
            raise rejection(3, "not supported")
        return server == "a"

    change = await change_all(place, act, about="alice")
    assert order == ["a", "b", "c"]
    assert change == Change(done=("a",), unchanged=("c",), without=("b",))
    assert change.servers == ("a", "c")
    assert list(await ask_all(place, ListUsers())) == ["a", "c"]


async def test_what_all_of_them_say_is_said_once() -> None:
    async def refuse(server: str) -> bool:
        raise rejection(16, "User:alice is not found.")

    with pytest.raises(UserRefused, match=r"^User:alice is not found$"):
        await change_all(Guarded("a b"), refuse, about="alice")

    async def fall(server: str) -> bool:
        raise ConnectionLost(server, "gone")

    with pytest.raises(PartlyDone, match="done at none"):
        await change_all(Guarded("a b"), fall, about="alice")


async def test_a_server_that_shares_its_users_with_one_that_is_done_is_done() -> None:
    users = {"alice"}

    async def act(server: str) -> bool:
        if "alice" not in users:
            raise rejection(16, "User:alice is not let in: there is no such user.")
        users.clear()
        return True

    change = await change_all(Guarded("a b"), act, about="alice", known_at=["a", "b"])
    assert change.done == ("a", "b")

    users.add("alice")
    with pytest.raises(PartlyDone, match="is not let in"):  # of whom b had never heard
        await change_all(Guarded("a b"), act, about="alice", known_at=["a"])


async def test_what_shows_late_is_seen() -> None:
    looks = 0

    async def third() -> bool:
        nonlocal looks
        looks += 1
        return looks == 3

    assert await seen(third)
