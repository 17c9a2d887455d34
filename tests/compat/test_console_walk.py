"""Every page and every change of the console in Chromium, in both languages and both themes.

It needs Chromium and npm (for axe-core, which looks for what keeps people out). With
``ROCKETPIPE_PICTURES`` it leaves the pictures there.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.console.support.browser import (
    PAGES,
    USERS,
    Watch,
    beside,
    browsing,
    chromium,
    console_of,
    show,
)
from tests.console.support.shop import filled
from tests.console.test_console import GUARDED, SECRET
from tests.waiting import PATIENCE_S

from rocketpipe import Admin, Producer, Session
from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.requests.groups import GroupList, UpdateAndCreateGroupList
from rocketpipe.protocol.requests.topics import TopicList, UpdateAndCreateTopicList
from rocketpipe.testing.servers import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.compat

AXE = "axe-core@4.14.0"
#: So many topics, and so many groups.
MANY = 10_000
#: Milliseconds from the API's answer to rows on screen, as the browser measures them itself.
TOOK = """async (noun) => {
  location.hash = '#/settings';
  await new Promise((done) => setTimeout(done, 500));
  location.hash = '#/' + noun;
  const first = () => document.querySelector('tr[data-row] a')?.textContent ?? '';
  while (!first().startsWith('many')) await new Promise(requestAnimationFrame);
  const asked = performance.getEntriesByType('resource').map((each) => each);
  const list = new RegExp('/api/1/' + noun + '(\\\\?|$)');
  return performance.now() - asked.filter((each) => list.test(each.name)).at(-1).responseEnd;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    chromium()
    with serving(tmp_path_factory.mktemp("shop")) as servers:
        beside(filled(servers))
        yield servers.name_server


@pytest.fixture(scope="module")
def console(name_server: str) -> Iterator[tuple[str, str]]:
    with console_of(name_server) as found:
        yield found


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(
        ["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"npm gives no {AXE}: {done.stderr.decode()[-200:]}")
    (tarball,) = folder.glob("*.tgz")
    with tarfile.open(tarball) as packed:
        member = packed.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def findings(page: Page, axe: str) -> list[str]:
    """What axe finds on a page; it runs beside the page's policy, not in spite of it."""
    session = page.context.new_cdp_session(page)
    session.send("Page.setBypassCSP", {"enabled": True})
    world = session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
    context = session.send("Page.createIsolatedWorld", {"frameId": world, "worldName": "axe"})
    where = {"contextId": context["executionContextId"], "awaitPromise": True}
    session.send("Runtime.evaluate", {"expression": axe, "contextId": where["contextId"]})
    run = (
        "axe.run(document, {resultTypes: ['violations']}).then((r) => JSON.stringify(r.violations))"
    )
    found = session.send("Runtime.evaluate", {"expression": run, "returnByValue": True, **where})
    session.detach()
    violations: list[dict[str, Any]] = json.loads(found["result"]["value"])
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for each in violations
        for node in each["nodes"][:3]
    ]


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("ROCKETPIPE_PICTURES")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", animations="disabled")


@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_opens_without_a_complaint(
    browser: Browser, console: tuple[str, str], axe: str, theme: Any, language: str
) -> None:
    root, token = console
    context = browser.new_context(
        viewport={"width": 1360, "height": 860}, color_scheme=theme, locale=language
    )
    page = context.new_page()
    watch = Watch(page)
    page.goto(f"{root}#/login")
    page.locator("form.login").wait_for()
    assert findings(page, axe) == []
    page.goto(f"{root}#/login?token={token}")
    page.locator(".who").wait_for()
    page.goto("about:blank")  # so that no picture has what was said at the login
    wrong = {}
    for name, place in PAGES.items():
        show(page, root, place)
        page.wait_for_timeout(300)
        if found := findings(page, axe):
            wrong[name] = found
        picture(page, f"console-{name}-{theme}-{language[:2]}")
    assert wrong == {}
    assert page.evaluate("document.documentElement.lang")[:2] == language[:2]
    assert watch.said == []
    context.close()


@pytest.fixture
def page(browser: Browser, console: tuple[str, str]) -> Iterator[Page]:
    """A page of somebody who may change things."""
    root, token = console
    context = browser.new_context(viewport={"width": 1360, "height": 860}, locale="en-GB")
    found = context.new_page()
    watch = Watch(found)
    found.goto(f"{root}#/login?token={token}")
    found.locator(".who").wait_for()
    yield found
    assert watch.said == []
    context.close()


# Users and rights, on a cluster that asks who asks


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a console of a cluster with users."""
    chromium()
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "broker.conf").write_text(GUARDED)
    with serving(folder, ["-c", str(folder / "broker.conf")]) as servers:
        beside(_with_users(servers.name_server))
        with console_of(servers.name_server, "--mask", "email") as (root, _):
            yield root


async def _with_users(name_server: str) -> None:
    signed = Session(name_server, access_key="root", secret_key=SECRET)
    async with Admin(signed) as admin:
        for name in ("ana", "billing-job", "reporting"):
            await admin.users.create(name, f"the-secret-of-{name}")
        await admin.policies.grant("ana", ["Topic:orders*", "Group:billing"], ["Pub", "Sub"])
        await admin.policies.grant(
            "ana", ["Topic:orders-internal"], ["All"], sources=["10.1.0.0/16"], deny=True
        )
        await admin.users.rotate(
            "reporting", "another-secret-of-it", old_until_ms=int(time.time() * 1000) + 86_400_000
        )
        await admin.users.disable("billing-job")


def _enter(page: Page, root: str) -> None:
    page.goto(f"{root}#/users")
    page.locator("form.login").wait_for()
    page.locator("input[autocomplete=username]").fill("root")
    page.locator("input[type=password]").fill(SECRET)
    page.locator("form.login .primary").click()
    page.locator(".who").wait_for()


@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_pages_of_users_open_without_a_complaint(
    browser: Browser, guarded: str, axe: str, theme: Any, language: str
) -> None:
    context = browser.new_context(
        viewport={"width": 1360, "height": 860}, color_scheme=theme, locale=language
    )
    page = context.new_page()
    watch = Watch(page)
    _enter(page, guarded)
    page.goto("about:blank")
    wrong = {}
    for name, place in USERS.items():
        show(page, guarded, place)
        page.wait_for_timeout(300)
        if found := findings(page, axe):
            wrong[name] = found
        picture(page, f"console-{name}-{theme}-{language[:2]}")
    page.locator("header .actions button").first.click()
    page.locator("dialog").wait_for()
    if found := findings(page, axe):
        wrong["dialog"] = found
    picture(page, f"console-rotate-{theme}-{language[:2]}")
    assert wrong == {}
    assert watch.said == []
    context.close()


def test_a_user_is_made_granted_explained_and_deleted(browser: Browser, guarded: str) -> None:
    context = browser.new_context(viewport={"width": 1360, "height": 860}, locale="en-GB")
    page = context.new_page()
    watch = Watch(page)
    _enter(page, guarded)
    show(page, guarded, "#/users")
    page.get_by_role("button", name="New user").click()
    page.locator("dialog input").first.fill("walked-user")
    page.get_by_role("button", name="Create").click()
    secret = page.locator("pre.secret").inner_text()
    picture(page, "console-secret")
    page.get_by_role("button", name="I have it").click()
    page.get_by_role("heading", name="walked-user").wait_for()
    assert secret not in page.content()
    page.get_by_label("Name, or").fill("orders")
    page.get_by_role("button", name="Grant", exact=True).click()
    page.get_by_role("cell", name="Topic:orders", exact=True).wait_for()
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("Decided by").wait_for()
    assert "name=orders" in page.url
    page.get_by_role("button", name="Revoke Topic:orders").click()
    page.locator("dialog input").fill("walked-user")
    page.locator("dialog .danger").click()
    page.get_by_text("It may do nothing yet.").wait_for()
    page.get_by_role("button", name="Disable").click()
    page.locator("dialog input").fill("walked-user")
    page.locator("dialog .danger").click()
    page.locator("header .badge.bad").wait_for()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator("dialog input").fill("walked-user")
    page.locator("dialog .danger").click()
    page.get_by_text("walked-user was deleted.").wait_for()
    assert watch.said == []
    context.close()


def test_a_message_is_sent_and_sent_again(page: Page, console: tuple[str, str]) -> None:
    show(page, console[0], "#/topics/refunds")
    page.get_by_role("button", name="Send a message").click()
    page.get_by_label("Body").fill('{"refund": 1}')
    page.get_by_label("Keys").fill("R1")
    page.locator("dialog .primary").click()
    page.get_by_role("link", name="Show it").click()
    page.locator("dialog pre").wait_for()
    assert '"refund": 1' in page.locator("dialog pre").inner_text()
    picture(page, "console-message")
    page.get_by_role("button", name="Send again").click()
    page.locator("dialog >> nth=1").get_by_role("button", name="Send a message").click()
    page.locator("dialog >> nth=1").get_by_text("Stored at").wait_for()


def test_a_reset_is_done_by_keys_alone(page: Page, console: tuple[str, str]) -> None:
    show(page, console[0], "#/groups/audit?tab=reset")
    page.locator("input[name=to] >> nth=1").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Preview").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Reset", exact=True).wait_for()
    picture(page, "console-reset")
    page.get_by_role("button", name="Reset", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("dialog input").focus()
    page.keyboard.type("audit")
    page.keyboard.press("Enter")
    page.get_by_text("goes on from there").wait_for()


def test_chosen_letters_are_replayed_and_say_so(page: Page, console: tuple[str, str]) -> None:
    show(page, console[0], "#/dlq/shop")
    for number in range(2):
        page.locator("tbody input[type=checkbox]").nth(number).check()
    page.get_by_role("button", name="Replay").click()
    page.locator("td .badge.good").nth(1).wait_for()
    picture(page, "console-replayed")


def test_a_delayed_message_is_taken_back_and_a_transaction_decided(
    page: Page, console: tuple[str, str]
) -> None:
    show(page, console[0], "#/waiting")
    page.get_by_role("button", name="Take back").first.click()
    page.locator("dialog .danger").click()
    page.get_by_text("The message is taken back.").wait_for()
    show(page, console[0], "#/waiting?tab=transactions")
    name = page.locator("tbody button.link").first.inner_text()
    page.get_by_role("button", name="Roll back").first.click()
    page.locator("dialog input").fill(name)
    page.locator("dialog .danger").click()
    page.get_by_text("No transactions are open.").wait_for()


def test_a_topic_and_a_group_are_made_changed_and_deleted(
    page: Page, console: tuple[str, str]
) -> None:
    for noun, place in (("topic", "topics"), ("group", "groups")):
        show(page, console[0], f"#/{place}")
        page.get_by_role("button", name=f"New {noun}").click()
        page.locator("dialog input").first.fill(f"walked-{noun}")
        page.get_by_role("button", name="Create").click()
        page.get_by_role("heading", name=f"walked-{noun}").wait_for()
        show(page, console[0], f"#/{place}/walked-{noun}?tab=settings")
        page.get_by_role("button", name=f"Delete the {noun}").click()
        page.locator("dialog input").fill(f"walked-{noun}")
        page.locator("dialog .danger").click()
        page.get_by_text("was deleted").wait_for()


def test_the_tail_shows_what_arrives_and_can_be_paused(
    page: Page, console: tuple[str, str], name_server: str
) -> None:
    async def send(count: int) -> None:
        async with Producer(name_server) as producer:
            for number in range(count):
                await producer.send("payments", b"tail %d" % number)

    show(page, console[0], "#/topics/payments?tab=tail")
    page.locator(".badge.good", has_text="live").wait_for()
    beside(send(3))
    page.get_by_text("tail 2").wait_for()
    page.keyboard.press("p")
    beside(send(2))
    page.get_by_text("2 came meanwhile").wait_for()
    picture(page, "console-tail")


def test_one_goes_about_by_keys(page: Page, console: tuple[str, str]) -> None:
    show(page, console[0], "#/overview")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_role("heading", name="Topics").wait_for()
    page.locator("tr[data-row]").first.wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Queues").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("bill")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="billing").wait_for()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")


def test_the_address_is_the_state(page: Page, console: tuple[str, str]) -> None:
    place = "#/topics/orders?tab=messages&from=time&tags=paid&contains=order"
    show(page, console[0], place)
    page.locator("tr[data-row]").first.wait_for()
    assert page.get_by_label("Tags").input_value() == "paid"
    page.locator("tr[data-row] button.link").first.click()
    page.locator("dialog pre").wait_for()
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.locator("dialog pre").wait_for()


def test_ten_thousand_topics_and_groups_are_on_screen_at_once(
    browser: Browser, tmp_path: Path
) -> None:
    async def fill(name_server: str, broker: str) -> None:
        names = [f"many-{number:05}" for number in range(MANY)]
        async with Session(name_server, timeout_ms=PATIENCE_S * 1000) as session:
            fleet = Fleet(session)
            for begin in range(0, MANY, 2000):
                some = names[begin : begin + 2000]
                topics = tuple(
                    TopicSettings(name=name, read_queues=1, write_queues=1) for name in some
                )
                wanted = TopicList(topics=topics)
                await fleet.call(broker, UpdateAndCreateTopicList(wanted=wanted))
                groups = GroupList(groups=tuple(GroupSettings(name=name) for name in some))
                await fleet.call(broker, UpdateAndCreateGroupList(wanted=groups))

    with serving(tmp_path) as servers:
        beside(fill(servers.name_server, servers.broker))
        with console_of(servers.name_server) as (root, _):
            page = browser.new_page()
            for noun in ("topics", "groups"):
                show(page, root, f"#/{noun}")
                page.locator("tr[data-row]").first.wait_for()
                assert page.locator("tr[data-row]").count() < 100
                page.evaluate("document.querySelector('.long').scrollTop = 1e9")
                page.get_by_text(f"many-{MANY - 1:05}").wait_for()
                took = page.evaluate(TOOK, noun)
                print(f"{MANY} {noun}: {took:.0f} ms from the answer to the screen")  # noqa: T201
                picture(page, f"console-many-{noun}")
