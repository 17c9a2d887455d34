"""The console in a real browser: its pages open, what is hostile is text, and a change is made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.console.support.browser import Watch, browsing, chromium, console_of, show
from tests.console.support.shop import HOSTILE, filled

from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.scenario


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    chromium()
    with serving(tmp_path_factory.mktemp("shop")) as servers:
        shop = asyncio.run(filled(servers, orders=10))
        with console_of(shop.name_server) as found:
            yield found


def test_a_browser_opens_it_shows_hostile_bodies_as_text_and_makes_a_topic(
    console: tuple[str, str],
) -> None:
    root, token = console
    with browsing() as browser:
        page = browser.new_page()
        watch = Watch(page)
        show(page, root, "#/topics/orders?tab=messages&from=key&key=XSS")
        page.get_by_text(HOSTILE).first.wait_for()
        page.locator("tr[data-row] button.link").first.click()
        page.locator("dialog pre").wait_for()
        assert page.locator("dialog pre").inner_text() == HOSTILE
        assert page.locator("img").count() == 0
        show(page, root, "#/topics")
        assert page.get_by_role("button", name="New topic").count() == 0

        page.goto(f"{root}#/login?token={token}")
        page.locator(".who").wait_for()
        assert token not in page.url
        show(page, root, "#/topics")
        page.get_by_role("button", name="New topic").click()
        page.get_by_label("Topic", exact=True).fill("made-here")
        page.get_by_role("button", name="Create").click()
        page.get_by_role("heading", name="made-here").wait_for()
        assert watch.said == []


#: Goes to the topics the moment the page shows who is there, before anything else of it runs.
GONE_AT_ONCE = """
new MutationObserver((_, watch) => {
  if (!document.querySelector(".who")) return;
  watch.disconnect();
  location.hash = "#/topics";
}).observe(document, { childList: true, subtree: true });
"""


def test_who_goes_elsewhere_as_the_login_ends_is_not_brought_back(
    console: tuple[str, str],
) -> None:
    root, token = console
    with browsing() as browser:
        page = browser.new_page()
        watch = Watch(page)
        page.add_init_script(GONE_AT_ONCE)
        page.goto(f"{root}#/login?token={token}")
        page.get_by_role("button", name="New topic").wait_for()
        assert page.url == f"{root}#/topics"
        assert watch.said == []
