"""Users and rights by the console, on a cluster that asks who asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.console.support.asking import Asker, asking
from tests.console.test_console import GUARDED, SECRET

from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.scenario


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("guarded")
    (folder / "broker.conf").write_text(GUARDED)
    with serving(folder, ["-c", str(folder / "broker.conf")]) as servers:
        yield servers.name_server


@pytest.fixture
async def root(name_server: str) -> AsyncIterator[Asker]:
    async with asking(name_server) as asker:
        await asker.post("login", {"user": "root", "password": SECRET})
        yield asker


async def made(root: Asker, name: str, **more: Any) -> str:
    found = await root.post("users", {"name": name, **more})
    assert found["failed"] == {}
    return str(found["secret"])


async def test_a_user_is_made_with_a_secret_that_is_told_once(
    root: Asker, name_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret = await made(root, "ana")
    assert len(secret) >= 16
    found = await root.get("users/ana")
    assert (found["super"], found["enabled"], found["rights"]) == (False, True, [])
    for path in ("users", "users/ana", "changes"):
        assert secret not in str(await root.get(path))
    assert secret not in caplog.text
    assert (await root.post("users", {"name": "ana"}, 409))["error"]["next"]
    async with asking(name_server) as ana:
        await ana.post("login", {"user": "ana", "password": secret})
        assert (await ana.get("users", 403))["error"]["status"] == 403
        await ana.post("users", {"name": "eve"}, 403)
        await ana.post("users/ana/grant", {"resources": ["Topic:*"], "actions": ["Pub"]}, 403)
    assert [row["name"] for row in (await root.get("users", q="eve"))["rows"]] == []


async def test_one_who_may_do_everything_is_made_by_typing_the_name(root: Asker) -> None:
    await root.post("users", {"name": "boss", "is_super": True}, 400)
    await made(root, "boss", is_super=True, confirm="boss")
    assert (await root.get("users/boss"))["super"] is True


async def test_rights_are_granted_explained_and_revoked(root: Asker) -> None:
    await made(root, "bill")
    question = {"resource": "Topic:orders", "action": "Pub"}
    assert (await root.get("users/bill/explain", **question))["allowed"] is False
    await root.post("users/bill/grant", {"resources": ["Topic:orders*"], "actions": ["Pub"]})
    found = await root.get("users/bill/explain", **question)
    assert found["allowed"] is True
    assert "Topic:orders*" in found["answers"][0]["points"][0]["decided_by"]
    (right,) = (await root.get("users/bill"))["rights"]
    assert (right["resource"], right["actions"]) == ("Topic:orders*", ["Pub"])
    deny = {"resources": ["Topic:orders*"], "actions": ["Pub"], "deny": True}
    await root.post("users/bill/grant", deny, 409)
    await root.post("users/bill/grant", deny | {"replace": True})
    assert (await root.get("users/bill/explain", **question))["allowed"] is False
    await root.post("users/bill/revoke", {"resources": ["Topic:orders*"], "part": right["part"]})
    assert (await root.get("users/bill"))["rights"] == []
    await root.post("users/bill/revoke", {"resources": ["Topic:orders*"]}, 404)
    for wrong in (
        {"resources": ["orders"], "actions": ["Pub"]},
        {"resources": ["Topic:orders"], "actions": ["Fly"]},
        {"resources": [], "actions": ["Pub"]},
        {"resources": ["Topic:x"], "actions": ["Pub"], "sources": ["nowhere"]},
    ):
        await root.post("users/bill/grant", wrong, 400)
    await root.post("users/bill/revoke", {"resources": ["Topic:x"], "part": "Whole"}, 400)
    await root.get("users/nobody/explain", 404, **question)


async def test_who_is_disabled_or_rotated_is_sent_away_at_once(
    root: Asker, name_server: str
) -> None:
    """Also at this console: the visit of who has that name ends with the change."""
    first = await made(root, "carl")
    root.client.cookies.clear()
    await root.post("login", {"user": "carl", "password": first})
    carl = dict(root.client.cookies)
    root.client.cookies.clear()
    await root.post("login", {"user": "root", "password": SECRET})
    await root.post("users/carl/rotate", {"confirm": "nobody"}, 400)
    kept = await root.post("users/carl/rotate", {"confirm": "carl", "old_hours": 1})
    assert kept["old_until_ms"] > 0
    assert (await root.get("users/carl"))["old_until_ms"] == kept["old_until_ms"]
    assert len(root.console.people) == 3
    now = await root.post("users/carl/rotate", {"confirm": "carl", "old_hours": 0})
    assert len({first, kept["secret"], now["secret"]}) == 3
    assert len(root.console.people) == 2
    mine = dict(root.client.cookies)
    root.client.cookies.clear()
    root.client.cookies.update(carl)
    assert (await root.get("console"))["who"] is None
    root.client.cookies.clear()
    root.client.cookies.update(mine)
    async with asking(name_server) as other:
        await other.post("login", {"user": "carl", "password": first}, 401)
        await other.post("login", {"user": "carl", "password": now["secret"]})
        await root.post("users/carl/disable", {"confirm": "carl"})
        await other.post("logout", {})
        await other.post("login", {"user": "carl", "password": now["secret"]}, 401)
        await root.post("users/carl/enable", {"confirm": "carl"})
        await other.post("login", {"user": "carl", "password": now["secret"]})
    await root.post("users/carl/delete", {"confirm": "carl"})
    await root.get("users/carl", 404)


async def test_who_is_shut_out_elsewhere_is_asked_to_log_in_again(
    root: Asker, name_server: str
) -> None:
    secret = await made(root, "dora")
    await root.post("users/dora/grant", {"resources": ["Cluster:*"], "actions": ["Get", "List"]})
    async with asking(name_server) as other:
        await other.post("login", {"user": "dora", "password": secret})
        await other.get("brokers")
        # Lacking a right is another thing.
        await other.post("users", {"name": "eva"}, 403)
        assert (await other.get("console"))["who"] == "dora"
        await root.post("users/dora/disable", {"confirm": "dora"})
        assert "log in" in (await other.get("topics", 401))["error"]["next"]
        assert (await other.get("console"))["who"] is None


async def test_the_last_who_may_do_everything_stays(root: Asker) -> None:
    for row in (await root.get("users"))["rows"]:
        if row["super"] and row["name"] not in ("root", "rocketpipe-inner"):
            await root.post(f"users/{row['name']}/delete", {"confirm": row["name"]})
    assert (await root.post("users/{}/disable".format("root"), {"confirm": "root"}, 409))["error"][
        "next"
    ]
    assert (await root.get("console"))["who"] == "root"


async def test_users_are_listed_by_pages_and_one_made_twice_at_once_is_made_once(
    root: Asker,
) -> None:
    names = [f"many-{number}" for number in range(5)]
    for name in names:
        await made(root, name)
    first = await root.get("users", q="many-", limit=3)
    assert (len(first["rows"]), first["total"], first["complete"]) == (3, 5, False)
    second = await root.get("users", q="many-", limit=3, after=first["after"])
    assert [row["name"] for row in first["rows"] + second["rows"]] == names
    answers = await asyncio.gather(
        *(
            root.client.post(
                "/api/1/users",
                json={"name": "twice"},
                headers={"Sec-Fetch-Site": "same-origin", "X-RocketPipe-Console": "1"},
            )
            for _ in range(2)
        )
    )
    told = [answer.json().get("secret") for answer in answers if answer.status_code == 200]
    # A secret that is told is one that lets in, whoever asked first.
    for secret in told:
        root.client.cookies.clear()
        await root.post("login", {"user": "twice", "password": secret})
    assert len(told) >= 1
