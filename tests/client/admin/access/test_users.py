"""Users, made and changed at every server that has some."""

from __future__ import annotations

import pytest
from tests.client.admin.support.guarded import Guarded

from rocketpipe.auth.secret import MOST_CHARACTERS, Secret
from rocketpipe.auth.subject import MAX_NAME, User
from rocketpipe.auth.users import MAX_USERS, UserTable
from rocketpipe.client.admin.access import servers as access
from rocketpipe.client.admin.access.servers import LastSuperuser, NoAccessControl, NotKept, NoUser
from rocketpipe.client.admin.access.users import UserExists
from rocketpipe.client.admin.fleet import PartlyDone
from rocketpipe.errors import ConnectionLost, InvalidName
from rocketpipe.protocol.requests.users import CreateUser, DeleteUser, UpdateUser

SECRET = "the-secret-of-alice"


async def test_a_user_from_its_creation_to_its_end() -> None:
    place = Guarded("a b", "c")
    change = await place.users.create("alice", SECRET)
    assert change.done == ("a", "b", "c")
    assert {place.user(name, "alice").secret.reveal() for name in "abc"} == {SECRET}  # type: ignore[union-attr]
    (alice, root) = await place.users.all()
    assert (alice.name, alice.is_super, alice.is_enabled) == ("alice", False, True)
    assert (root.is_super, root.missing, alice.servers) == (True, (), ("a", "b", "c"))
    assert (await place.users.disable("alice")).done == ("a", "b", "c")
    assert (await place.users.disable("alice")).unchanged == ("a", "b", "c")
    assert not (await place.users.show("alice")).is_enabled
    await place.users.enable("alice")
    await place.users.set_type("alice", is_super=True)
    assert (await place.users.show("alice")).is_super
    assert (await place.users.delete("alice")).done == ("a", "b", "c")
    assert [each.name for each in await place.users.all()] == ["root"]


async def test_one_who_is_there_is_not_made_again() -> None:
    place = Guarded()
    await place.users.create("alice", SECRET)
    with pytest.raises(UserExists, match="user rotate alice"):
        await place.users.create("alice", SECRET)
    place.gates["b"].users.remove("alice")
    with pytest.raises(UserExists, match=r"at a, and not at b: .*--secret-file"):
        await place.users.create("alice", SECRET)
    change = await place.users.create("alice", SECRET, where_missing=True)
    assert (change.done, change.unchanged) == (("b",), ("a",))


async def test_a_secret_is_given_up_only_when_its_time_is_over() -> None:
    place = Guarded()
    await place.users.create("alice", SECRET)
    await place.users.rotate("alice", "another-secret-1", old_until_ms=5_000)
    for server in "ab":
        user = place.user(server, "alice")
        assert user is not None
        assert [each.reveal() for each in user.secrets_at(4_999)] == ["another-secret-1", SECRET]
        assert [each.reveal() for each in user.secrets_at(5_000)] == ["another-secret-1"]
    await place.users.rotate("alice", "another-secret-1", old_until_ms=7_000)
    user = place.user("a", "alice")
    assert user is not None
    assert [each.reveal() for each in user.secrets_at(6_999)] == ["another-secret-1", SECRET]
    assert (await place.users.show("alice")).old_until_ms == 7_000
    await place.users.rotate("alice", "a-third-secret-1")
    assert (await place.users.show("alice")).old_until_ms is None


async def test_what_only_some_servers_did_is_told_and_can_be_finished() -> None:
    place = Guarded("a b", "c")
    place.down = {"b"}
    with pytest.raises(PartlyDone) as error:
        await place.users.create("alice", SECRET)
    assert error.value.done == ("a", "c")
    assert list(error.value.failed) == ["b"]
    assert SECRET not in str(error.value)
    assert (await place.users.show("alice")).silent == ("b",)
    with pytest.raises(PartlyDone):
        await place.users.disable("alice")
    assert not (await place.users.show("alice")).is_enabled, "who is down keeps nobody in"
    await place.policies.explain("alice", [("Pub", "Topic:a")])
    place.down = set()
    assert (await place.users.create("alice", SECRET, where_missing=True)).done == ("b",)
    assert (await place.users.disable("alice")).done == ("b",)
    place.down = {"a", "b", "c"}
    with pytest.raises(ConnectionLost):
        await place.users.show("alice")


async def test_servers_without_access_control_are_named_and_left_out() -> None:
    place = Guarded("n a", plain="n")
    assert (await place.users.create("alice", SECRET)).without == ("n",)
    assert (await place.users.all_with_servers())[1] == ["n"]
    with pytest.raises(NoAccessControl, match="authenticationEnabled=true"):
        await Guarded("n", plain="n").users.all()
    with pytest.raises(NoAccessControl):
        await Guarded("n", plain="n").users.create("alice", SECRET)


@pytest.mark.parametrize("kind", [CreateUser, UpdateUser, DeleteUser])
async def test_a_server_that_says_yes_and_does_nothing_is_found_out(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_BETWEEN_S", 0)
    place = Guarded()
    if kind is not CreateUser:
        await place.users.create("alice", SECRET)
    place.lies = {"b": kind}
    acts = {
        CreateUser: lambda: place.users.create("alice", SECRET),
        UpdateUser: lambda: place.users.disable("alice"),
        DeleteUser: lambda: place.users.delete("alice"),
    }
    with pytest.raises(PartlyDone, match="b said yes, but") as error:
        await acts[kind]()
    assert isinstance(error.value.failed["b"], NotKept)


async def test_the_last_who_may_do_everything_stays() -> None:
    place = Guarded()
    for act in (place.users.delete, place.users.disable):
        with pytest.raises(LastSuperuser, match="make another first"):
            await act("root")
    with pytest.raises(LastSuperuser):
        await place.users.set_type("root", is_super=False)
    await place.users.create("second", SECRET, is_super=True)
    assert (await place.users.delete("root")).done == ("a", "b")


async def test_nothing_is_done_in_a_dry_run() -> None:
    place = Guarded()
    assert (await place.users.create("alice", SECRET, dry_run=True)).done == ("a", "b")
    assert await place.users.find("alice") is None
    await place.users.create("alice", SECRET)
    place.asked.clear()
    await place.users.rotate("alice", "another-secret-1", old_until_ms=9, dry_run=True)
    await place.users.disable("alice", dry_run=True)
    await place.users.delete("alice", dry_run=True)
    assert not {type(request) for _, request in place.asked} & {CreateUser, UpdateUser, DeleteUser}


async def test_names_and_secrets_have_their_limits() -> None:
    place = Guarded()
    longest = "a" * MAX_NAME
    await place.users.create(longest, "s" * MOST_CHARACTERS)
    assert await place.users.find(longest) is not None
    for name in ("", " ", longest + "a", "a b", "a:b", "ü"):
        with pytest.raises(InvalidName):
            await place.users.create(name, SECRET)
    for secret in ("", "x" * 15, "x" * (MOST_CHARACTERS + 1), "******", "line\nbreak-and-more"):
        with pytest.raises(ValueError, match=r"secret|\*"):
            await place.users.create("alice", secret)
    await place.users.create("weak", Secret("seven-7"), weak=True)
    with pytest.raises(NoUser, match="user create bob"):
        await place.users.show("bob")


async def test_ten_thousand_users_are_listed_and_there_is_no_room_for_more() -> None:
    place = Guarded("a")
    some = [User(name=f"u{number:05}", secret=Secret(SECRET)) for number in range(MAX_USERS - 1)]
    table: UserTable = place.gates["a"].users
    table.put_all(some)
    assert len(await place.users.all()) == MAX_USERS
    assert len(await place.users.all("u0998")) == 10
    with pytest.raises(Exception, match="10000 users are the most"):
        await place.users.create("alice", SECRET)
