"""A scripted attacker: what other sites, names, forms and frames can do to a console."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from tests.console.support.asking import OURS

from rocketpipe.console.asking import MAX_BODY_BYTES
from rocketpipe.console.guard import HEADERS, Guard

AT = "http://127.0.0.1:8080"
CHANGE = "/api/1/topics"


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that lets everything through."""
    await PlainTextResponse(f"reached {Request(scope).method}")(scope, receive, send)


def attacker(bound: str = "127.0.0.1", *public: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(Guard(inner, bound=bound, public=frozenset(public)))
    return httpx.AsyncClient(transport=transport, base_url=AT)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with attacker() as found:
        yield found


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
     "10.0.0.1", "[::1", "", "127.0.0.1@evil.example", "2130706433"],
)  # fmt: skip
async def test_a_name_that_was_pointed_here_is_not_answered(
    client: httpx.AsyncClient, host: str
) -> None:
    for path in ("/", "/api/1/topics", "/assets/x/app.js"):
        answer = await client.get(path, headers={"Host": host})
        assert answer.status_code == 421, host
        assert answer.json()["error"]["next"]


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "localhost", "LOCALHOST:1"])
async def test_its_own_names_are_answered(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/api/1/topics", headers={"Host": host})).status_code == 200


async def test_a_public_name_is_answered_and_with_all_addresses_every_number() -> None:
    async with attacker("0.0.0.0", "mq.example.org") as client:
        for host in ("mq.example.org", "10.1.2.3:8080", "[::1]:8080"):
            assert (await client.get("/", headers={"Host": host})).status_code == 200
        assert (await client.get("/", headers={"Host": "evil.example"})).status_code == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_site_learns_nothing_by_the_api(client: httpx.AsyncClient, site: str) -> None:
    answer = await client.get("/api/1/topics", headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403
    assert (await client.get("/", headers={"Sec-Fetch-Site": site})).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),  # an old browser, or a program that does not say it
        ({**OURS, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**OURS, "Sec-Fetch-Site": "same-site"}, 403),
        ({**OURS, "Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 403),
        ({**OURS, "Origin": "http://evil.example"}, 403),
        ({**OURS, "Origin": "null"}, 403),
        ({**OURS, "Origin": "http://127.0.0.1:9999"}, 403),
        ({**OURS, "Content-Type": "text/plain"}, 415),
        ({**OURS, "Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({**OURS, "Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({**OURS, "Content-Length": str(MAX_BODY_BYTES + 1)}, 413),
        ({**OURS, "Content-Length": "-1"}, 413),
    ],
)
async def test_no_other_site_and_no_form_changes_anything(
    client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    sent = {"Content-Type": "application/json", **headers}
    answer = await client.post(CHANGE, content=b"{}", headers=sent)
    assert answer.status_code == status
    assert "reached" not in answer.text


async def test_a_page_of_the_console_changes_things(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHANGE, json={}, headers={**OURS, "Origin": AT})
    assert answer.text == "reached POST"


async def test_a_proxy_may_ask_in_another_name_than_people_do() -> None:
    """Its Host is where it found the console, the page's Origin is what people opened."""
    async with attacker("127.0.0.1", "mq.example.org") as client:
        for origin, text in (("https://mq.example.org", "reached POST"), ("https://[", "another")):
            answer = await client.post(CHANGE, json={}, headers={**OURS, "Origin": origin})
            assert text in answer.text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "CONNECT"])
async def test_no_other_method_is_answered(client: httpx.AsyncClient, method: str) -> None:
    assert (await client.request(method, CHANGE, headers=OURS)).status_code == 405


async def test_every_answer_forbids_frames_scripts_of_others_and_guesses(
    client: httpx.AsyncClient,
) -> None:
    for path, host in (("/", "localhost"), ("/api/1/x", "localhost"), ("/", "evil.example")):
        answer = await client.get(path, headers={"Host": host})
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert answer.headers["cache-control"] == "no-store"
        assert not [name for name in answer.headers if name.startswith("access-control")]
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy


async def test_probes_are_answered_whatever_name_they_ask_by(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics", headers={"Host": "prometheus.example"})
    assert answer.text == "reached GET"
