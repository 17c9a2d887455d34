"""The files of the pages: pinned, small, fixed, and with every word in both languages."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.types import Message
from tests.console.support.asking import ADDRESS
from tools.packaging import vendor_assets

from rocketpipe.console import assets
from rocketpipe.console.app import console_app
from rocketpipe.console.console import Console, ConsoleConfig

PAGES = Path(assets.__file__).parent / "pages"
SCRIPTS = sorted(path for path in PAGES.rglob("*.js") if "vendor" not in path.parts)


def words(language: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((PAGES / "i18n" / f"{language}.json").read_text())
    return found


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    console = Console(ConsoleConfig(name_servers="127.0.0.1:1", address=ADDRESS))
    transport = httpx.ASGITransport(console_app(console))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{ADDRESS}") as found:
        yield found


def test_what_others_wrote_is_as_it_was_published() -> None:
    assert vendor_assets.check() == []
    for package in vendor_assets.pins():
        assert package["licence"]
        assert any(file["as"].endswith(".LICENSE") for file in package["files"])


def test_all_assets_are_small() -> None:
    assert assets.load().size < 300_000


def test_the_page_has_no_script_and_no_style_of_its_own() -> None:
    page = assets.load().page.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", page)
    assert "{{" not in page
    # Relative, so that it works behind a prefix.
    assert not re.search(r'(?:src|href)="(?:/|https?:)', page)


def test_scripts_write_text_and_never_markup_or_code() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|document\.write|\beval\(|"
        r"new Function|setTimeout\(\s*[\"'`]|javascript:|https?://(?!www\.w3\.org)"
    )
    for path in SCRIPTS:
        assert not forbidden.search(path.read_text()), path.name


def test_addresses_asked_by_scripts_are_relative() -> None:
    for path in SCRIPTS:
        assert not re.search(r"fetch\(\s*[\"'`]/|EventSource\(\s*[\"'`]/", path.read_text()), path


def test_both_languages_have_every_word_with_the_same_blanks() -> None:
    english, chinese = words("en"), words("zh")
    assert english.keys() == chinese.keys()
    blank = re.compile(r"\{\w+\}")
    for name, text in english.items():
        assert sorted(blank.findall(text)) == sorted(blank.findall(chinese[name])), name
        assert text.strip()
        assert chinese[name].strip()


def test_every_word_that_scripts_use_is_there_and_every_word_is_used() -> None:
    source = "".join(path.read_text() for path in SCRIPTS)
    used = set(re.findall(r'\bt\("([^"]+)"', source))
    begun = {text.partition("${")[0] for text in re.findall(r"\bt\(`([^`]+)`", source)}
    known = words("en").keys()
    assert used <= known
    unused = {name for name in known - used if not name.startswith(tuple(begun))}
    assert not unused


def test_pages_have_no_words_of_one_language_only() -> None:
    """Text between tags comes from the tables; names of formats are the same everywhere."""
    bare = re.compile(r">\s*([A-Za-z][a-z]+(?: [a-z]+)+)\s*<")
    for path in SCRIPTS:
        found = [text for text in bare.findall(path.read_text()) if "rocketpipe " not in text]
        assert not found, path.name


@pytest.mark.parametrize(
    "path",
    ["../console.py", "../../console.py", "vendor/../app.js", "index.html", "/etc/passwd",
     "app.js/", "App.js", "vendor", "i18n/../../app.py", "\\..\\app.py", "app.js\0.css", ""],
)  # fmt: skip
async def test_no_path_leads_out_of_the_table(path: str) -> None:
    """As the app gets it: a browser would have made another of some of them."""
    app = console_app(Console(ConsoleConfig(name_servers="127.0.0.1:1", address=ADDRESS)))
    whole = f"/assets/{assets.load().digest}/{path}"
    headers = [(b"host", ADDRESS.encode())]
    scope = {
        "type": "http",
        "method": "GET",
        "path": whole,
        "query_string": b"",
        "headers": headers,
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 404
    assert b"nothing here" in sent[1]["body"]


async def test_a_file_is_kept_for_ever_under_a_name_that_changes_with_it(
    client: httpx.AsyncClient,
) -> None:
    digest = assets.load().digest
    answer = await client.get(f"/assets/{digest}/app.js")
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["content-encoding"] == "gzip"
    plain = await client.get(f"/assets/{digest}/app.js", headers={"Accept-Encoding": "identity"})
    assert plain.text == answer.text
    assert (await client.get("/assets/0/app.js")).status_code == 404


async def test_nothing_leads_anywhere_else(client: httpx.AsyncClient) -> None:
    for path in ("//evil.example", "/%2f%2fevil.example", "/login?next=//evil.example", "/x/../"):
        answer = await client.get(path, follow_redirects=False)
        assert answer.status_code in (200, 404)
        assert "location" not in answer.headers
