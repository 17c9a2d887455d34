"""Who may what: the token of an open cluster, and the users of one with access control."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.console.support.asking import OURS, TOKEN, asking
from tests.console.support.shop import Shop
from tests.waiting import until

from rocketpipe import Admin, Session
from rocketpipe.auth.secret import Secret
from rocketpipe.console.people import WRONG_A_MINUTE
from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.scenario

SECRET = "the-secret-of-root"
GUARDED = (
    "authenticationEnabled=true\nauthorizationEnabled=true\n"
    f'initAuthenticationUser={{"username":"root","password":"{SECRET}"}}\n'
    f'innerClientAuthenticationCredentials={{"accessKey":"root","secretKey":"{SECRET}"}}\n'
)


async def test_everybody_looks_at_an_open_cluster_and_the_token_lets_change(shop: Shop) -> None:
    async with asking(shop.name_server) as asker:
        found = await asker.get("console")
        assert (found["guarded"], found["login"], found["may_change"]) == (False, "token", False)
        assert await asker.post("groups", {"name": "nobodys"}, 403)
        assert await asker.post("login", {"token": "wrong"}, 401)
        assert await asker.post("login", {"user": "root", "password": "x"}, 400)
        await asker.log_in()
        assert (await asker.get("console"))["may_change"] is True
        await asker.post("logout", {})
        assert (await asker.get("console"))["may_change"] is False
        assert await asker.post("groups", {"name": "nobodys"}, 403)
        tried = [row["what"] for row in (await asker.get("changes"))["rows"]]
        assert tried == ["log in", "log in"]


async def test_a_console_without_a_token_changes_nothing(shop: Shop) -> None:
    async with asking(shop.name_server, token=None) as asker:
        assert (await asker.get("console"))["login"] is None
        refused = await asker.post("login", {"token": TOKEN}, 403)
        assert "--allow-changes" in refused["error"]["next"]


async def test_a_login_flood_is_answered_late_and_the_right_token_at_once(shop: Shop) -> None:
    async with asking(shop.name_server) as asker:
        for _ in range(WRONG_A_MINUTE):
            await asker.post("login", {"token": "wrong"}, 401)
        late = asyncio.ensure_future(asker.post("login", {"token": "wrong"}, 429))
        await until(lambda: asker.console.people.held == 1)
        await asker.log_in()
        assert (await asker.get("console"))["may_change"] is True
        assert not late.done()
        late.cancel()


async def test_a_cookie_that_was_planted_before_the_login_is_worth_nothing(shop: Shop) -> None:
    async with asking(shop.name_server) as asker:
        name = asker.console.config.cookie
        asker.client.cookies.set(name, "planted")
        await asker.log_in()
        cookies = [each.value for each in asker.client.cookies.jar if each.name == name]
        assert cookies != ["planted"]
        asker.client.cookies.clear()
        asker.client.cookies.set(name, "planted")
        assert (await asker.get("console"))["who"] is None


async def test_a_cookie_is_for_this_console_only(shop: Shop) -> None:
    async with asking(shop.name_server, is_https=True) as asker:
        answer = await asker.client.post(
            "/api/1/login",
            json={"token": TOKEN},
            headers={"Sec-Fetch-Site": "same-origin", "X-RocketPipe-Console": "1"},
        )
        said = answer.headers["set-cookie"].lower()
        for word in ("httponly", "samesite=strict", "secure", "path=/"):
            assert word in said
        assert TOKEN not in answer.text


async def test_two_consoles_of_one_host_know_their_own_cookies(shop: Shop) -> None:
    """Browsers send cookies to all ports of a host: who logs in at one is not out at another."""
    async with (
        asking(shop.name_server) as first,
        asking(shop.name_server, address="127.0.0.1:8081") as second,
    ):
        await first.log_in()
        second.client.cookies = first.client.cookies
        await second.log_in()
        assert (await first.get("console"))["who"] == "token"
        assert (await second.get("console"))["who"] == "token"


async def test_nobody_fills_the_memory_by_a_login(shop: Shop) -> None:
    async with asking(shop.name_server) as asker:
        long = await asker.post("login", {"token": "x" * 5000}, 413)
        assert "4096" in long["error"]["next"]


async def test_what_was_typed_at_a_login_is_told_nobody(tmp_path: Path) -> None:
    """A password in the field of the name would be there for all who look at changes."""
    (tmp_path / "broker.conf").write_text(GUARDED)
    with serving(tmp_path, ["-c", str(tmp_path / "broker.conf")]) as servers:
        async with asking(servers.name_server) as asker:
            await asker.post("login", {"user": "my-password-1", "password": "x"}, 401)
            await asker.post("login", {"user": "root", "password": SECRET})
            assert "my-password-1" not in str(await asker.get("changes"))


async def test_who_is_at_a_guarded_cluster_logs_in_and_the_cluster_judges(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(GUARDED)
    with serving(tmp_path, ["-c", str(tmp_path / "broker.conf")]) as servers:
        async with asking(servers.name_server) as asker:
            found = await asker.get("console")
            assert (found["guarded"], found["login"]) == (True, "users")
            assert found["name_servers"] is None
            for path in ("overview", "topics", "groups", "brokers", "changes", "live"):
                assert await asker.get(path, 401)
            # What lets change an open cluster is no key to this one.
            assert await asker.post("login", {"token": TOKEN}, 400)
            assert await asker.post("login", {"user": "root", "password": "wrong"}, 401)
            assert await asker.post("login", {"user": "nobody", "password": SECRET}, 401)
            await asker.post("login", {"user": "root", "password": SECRET})
            await asker.post("topics", {"name": "orders", "queues": 1})
            assert (await asker.get("topics"))["total"] == 1
            who = (await asker.get("changes"))["rows"][0]
            assert (who["who"], who["what"]) == ("root", "create topic orders with 1 queues")
            await asker.post("logout", {})
            assert await asker.get("topics", 401)
        async with Admin(
            Session(servers.name_server, access_key="root", secret_key=SECRET)
        ) as admin:
            assert await admin.topics.names() == ["orders"]


async def test_rights_for_some_sources_are_judged_by_where_the_person_is(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(GUARDED)
    login = {"user": "ann", "password": "the-secret-of-ann"}
    with serving(tmp_path, ["-c", str(tmp_path / "broker.conf")]) as servers:
        root = Session(servers.name_server, access_key="root", secret_key=SECRET)
        async with root, Admin(root) as admin:
            await admin.topics.create("orders")
            await admin.users.create("ann", login["password"])
            near, far = ["10.1.0.0/16"], ["10.1.0.0/16", "127.0.0.1"]
            for sources, place, secret, may in (
                (near, "10.1.2.3", SECRET, True),  # a console of the servers' own
                (near, "10.2.0.1", SECRET, False),
                (near, "10.1.2.3", None, False),  # one elsewhere, which is not believed
                (far, "10.1.2.3", None, True),
                (far, "10.2.0.1", None, False),  # it may ask, but not for this person
            ):
                await admin.policies.grant(
                    "ann", ["*"], ["All"], sources=sources, replace_others=True
                )
                inner = None if secret is None else Secret(secret)
                async with asking(servers.name_server, place=place, inner_secret=inner) as asker:
                    await asker.post("login", login)
                    sent = await asker.client.post(
                        "/api/1/messages", json={"topic": "orders", "body": "hello"}, headers=OURS
                    )
                    assert (sent.status_code == 200) is may, (sources, place, sent.text)
