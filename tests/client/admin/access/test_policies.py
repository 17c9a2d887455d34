"""What users may do, granted and revoked at every server."""

from __future__ import annotations

import pytest
from tests.client.admin.support.guarded import Guarded

from rocketpipe.auth.policy import Part, Policy
from rocketpipe.client.admin.access import servers as access
from rocketpipe.client.admin.access.policies import EntryInTheWay, NothingToRevoke, entries_of
from rocketpipe.client.admin.access.servers import NoUser
from rocketpipe.client.admin.fleet import PartlyDone
from rocketpipe.protocol.requests.users import (
    AclInfo,
    AclReply,
    CreateAcl,
    DeleteAcl,
    GetAcl,
    PolicyEntryInfo,
    PolicyInfo,
)


async def place_with(*users: str) -> Guarded:
    place = Guarded()
    for user in users or ("alice",):
        await place.users.create(user, f"the-secret-of-{user}")
    return place


async def rights(place: Guarded, user: str = "alice") -> list[str]:
    return [str(each.entry) for each in await place.policies.all(user)]


async def test_a_grant_adds_to_what_is_there() -> None:
    place = await place_with()
    assert (await place.policies.grant("alice", ["Topic:orders"], ["pub"])).done == ("a", "b")
    await place.policies.grant("alice", ["Topic:orders", "Group:g"], ["Sub"])
    assert await rights(place) == ["Allow Sub on Group:g", "Allow Pub,Sub on Topic:orders"]
    assert (await place.policies.grant("alice", ["Topic:orders"], ["sub"])).unchanged == ("a", "b")


async def test_what_says_the_opposite_is_in_the_way_until_it_is_replaced() -> None:
    place = await place_with()
    await place.policies.grant("alice", ["Topic:orders"], ["pub"])
    for other in ({"deny": True}, {"sources": ["10.0.0.0/8"]}):
        with pytest.raises(EntryInTheWay, match=r"has Allow Pub on Topic:orders: .*--replace"):
            await place.policies.grant("alice", ["Topic:orders"], ["sub"], **other)  # type: ignore[arg-type]
    await place.policies.grant("alice", ["Topic:orders"], ["sub"], deny=True, replace_others=True)
    assert await rights(place) == ["Deny Sub on Topic:orders"]


async def test_what_is_revoked_is_gone_and_the_rest_stays() -> None:
    place = await place_with()
    await place.policies.grant("alice", ["Topic:a", "Topic:b", "Group:g"], ["pub", "sub"])
    await place.policies.revoke("alice", ["Topic:a"], ["pub"])
    assert await rights(place) == [
        "Allow Pub,Sub on Group:g",
        "Allow Sub on Topic:a",
        "Allow Pub,Sub on Topic:b",
    ]
    await place.policies.revoke("alice", ["Topic:b"])
    with pytest.raises(NothingToRevoke, match="acl list alice"):
        await place.policies.revoke("alice", ["Topic:a"], ["pub"])
    with pytest.raises(NothingToRevoke):
        await place.policies.revoke("alice", ["Topic:b"])
    await place.policies.revoke("alice")
    assert await rights(place) == []


async def test_of_all_actions_one_can_be_taken_back() -> None:
    place = await place_with()
    await place.policies.grant("alice", ["Topic:a"], ["all"])
    await place.policies.revoke("alice", ["Topic:a"], ["delete"])
    assert await rights(place) == ["Allow Pub,Sub,Create,Update,Get,List on Topic:a"]


async def test_who_does_not_exist_gets_nothing() -> None:
    place = await place_with()
    for act in (
        place.policies.grant("bob", ["Topic:a"], ["pub"]),
        place.policies.revoke("bob"),
        place.policies.all("bob"),
        place.policies.explain("bob", [("pub", "Topic:a")]),
    ):
        with pytest.raises(NoUser):
            await act  # type: ignore[misc]


@pytest.mark.parametrize(
    ("resource", "action", "reason"),
    [
        ("Topic:%RETRY%g", "sub", "name Group:g"),
        ("Topic:%DLQ%g", "sub", "name Group:g"),
        ("Topic:a b", "pub", "topic"),
        ("Topic:" + "a" * 128, "pub", "127"),
        ("Group:" + "a" * 256, "sub", "group"),
        ("orders", "pub", "is no resource"),
        ("Topic:a", "pubb", "is no action"),
    ],
)
def test_what_no_request_would_ever_be_about_is_refused(
    resource: str, action: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        entries_of([resource], [action], deny=False)


def test_the_longest_names_are_taken() -> None:
    entries_of(["Topic:" + "a" * 127, "Group:" + "a" * 120], ["all"], ["::1"], deny=True)


async def test_servers_that_differ_are_told_apart() -> None:
    place = await place_with()
    await place.policies.grant("alice", ["Topic:a"], ["pub"])
    place.gates["b"].policies.remove("User:alice")
    (entry,) = await place.policies.all("alice")
    assert (entry.servers, entry.missing) == (("a",), ("b",))
    found = await place.policies.explain("alice", [("Pub", "Topic:a")])
    assert [(servers, answer.allowed) for servers, answer in found.answers] == [
        (("a",), True),
        (("b",), False),
    ]
    assert not found.allowed
    await place.policies.grant("alice", ["Topic:a"], ["pub"])
    assert (await place.policies.explain("alice", [("Pub", "Topic:a")])).allowed


async def test_who_may_do_everything_and_who_is_not_let_in() -> None:
    place = await place_with("alice", "boss")
    await place.users.set_type("boss", is_super=True)
    assert (await place.policies.explain("boss", [("Delete", "Topic:a")])).allowed
    await place.policies.grant("alice", ["Topic:a"], ["pub"])
    await place.users.disable("alice")
    assert not (await place.policies.explain("alice", [("Pub", "Topic:a")])).allowed
    with pytest.raises(ValueError, match="is many"):
        await place.policies.explain("alice", [("Pub", "Topic:a*")])
    with pytest.raises(ValueError, match="is no address"):
        await place.policies.explain("alice", [("Pub", "Topic:a")], source="10.0.0.0/8")


@pytest.mark.parametrize("kind", [CreateAcl, DeleteAcl])
async def test_a_server_that_says_yes_and_does_nothing_is_found_out(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_BETWEEN_S", 0)
    place = await place_with()
    await place.policies.grant("alice", ["Topic:a"], ["pub"])
    place.lies = {"a": kind}
    act = (
        place.policies.grant("alice", ["Topic:b"], ["pub"])
        if kind is CreateAcl
        else place.policies.revoke("alice")
    )
    with pytest.raises(PartlyDone, match="a said yes, but tells of other rights"):
        await act


async def test_rights_that_are_none_are_not_believed() -> None:
    place = await place_with()
    calls = place.call
    nonsense = AclInfo(
        subject="User:alice",
        policies=(PolicyInfo(entries=(PolicyEntryInfo(resource="\x1b[2J", actions=("Fly",)),)),),
    )

    async def lying(server: str, request: object) -> object:
        if isinstance(request, GetAcl):
            return AclReply(acl=nonsense)
        return await calls(server, request)  # type: ignore[arg-type]

    place.call = lying  # type: ignore[method-assign, assignment]
    with pytest.raises(Exception, match="rights that are none"):
        await place.policies.of("alice")


async def test_a_whole_policy_takes_the_place_of_another() -> None:
    place = await place_with()
    await place.policies.grant("alice", ["Topic:a", "Topic:b"], ["pub"])
    (entry,) = entries_of(["Topic:b"], ["sub"], deny=True)
    new = Policy(subject="User:alice", entries={Part.CUSTOM: (entry,)})
    await place.policies.put("alice", new)
    assert await rights(place) == ["Allow Pub on Topic:a", "Deny Sub on Topic:b"]
    await place.policies.put("alice", new, keep_others=False)
    assert await rights(place) == ["Deny Sub on Topic:b"]
    place.asked.clear()
    await place.policies.put("alice", Policy(subject="User:alice"), keep_others=False, dry_run=True)
    assert await rights(place) == ["Deny Sub on Topic:b"]
