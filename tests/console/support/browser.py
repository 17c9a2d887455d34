"""A real browser on a real console: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

T = TypeVar("T")

#: Every page, by a name for its picture.
PAGES = {
    "overview": "#/overview",
    "topics": "#/topics",
    "topic": "#/topics/orders",
    "messages": "#/topics/orders?tab=messages",
    "tail": "#/topics/orders?tab=tail",
    "topic-groups": "#/topics/orders?tab=groups",
    "topic-settings": "#/topics/orders?tab=settings",
    "groups": "#/groups",
    "group": "#/groups/billing",
    "members": "#/groups/billing?tab=members",
    "reset": "#/groups/billing?tab=reset",
    "group-settings": "#/groups/billing?tab=settings",
    "dead-letters": "#/dlq",
    "letters": "#/dlq/shop",
    "delayed": "#/waiting",
    "transactions": "#/waiting?tab=transactions",
    "traces": "#/traces?id=P1",
    "clients": "#/clients",
    "brokers": "#/brokers",
    "broker": "#/brokers/broker-a",
    "broker-settings": "#/brokers/broker-a?tab=settings",
    "pipelines": "#/pipelines",
    "users-open": "#/users",
    "settings": "#/settings",
}
#: Those of a cluster that has users.
USERS = {
    "users": "#/users",
    "user-reporting": "#/users/reporting",
    "user-disabled": "#/users/billing-job",
    "user": "#/users/ana?kind=Topic&name=orders-internal&action=Pub&source=10.1.2.3",
}


def chromium() -> str:
    """Where the browser is; without one the test is skipped, which is told."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium: sudo apt-get install -y chromium fonts-noto-cjk")
    return found


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start the browser for the length of the block."""
    place = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its sandbox does not let root in.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=place, args=flags)
        try:
            yield browser
        finally:
            browser.close()


def beside(work: Coroutine[Any, Any, T]) -> T:
    """Have something done on a loop of its own: Playwright has the one of this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@contextmanager
def console_of(name_server: str, *flags: str) -> Iterator[tuple[str, str]]:
    """Run ``rocketpipe console``, in which things may be changed; gives its address and token."""
    with console_process(name_server, *flags) as (_, root, token):
        yield root, token


@contextmanager
def console_process(name_server: str, *flags: str) -> Iterator[tuple[int, str, str]]:
    """The same, with the number of its process first."""
    command = [sys.executable, "-m", "rocketpipe.cli.main", "console", "-n", name_server]
    command += ["--http", "127.0.0.1:0", "--allow-changes", *flags]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        try:
            assert child.stdout is not None
            lines = []
            for line in iter(child.stdout.readline, ""):
                lines.append(line.strip())
                if line.startswith("ready "):
                    break
            (link,) = [line.partition(": ")[2] for line in lines if "token=" in line]
            yield child.pid, link.partition("#")[0], link.partition("token=")[2]
        finally:
            child.terminate()
            child.wait(30)


class Watch:
    """Whatever a page complains of; there must be nothing."""

    def __init__(self, page: Page) -> None:
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))


def show(page: Page, root: str, place: str) -> None:
    """Go to a page of the console, and wait until it has what it asked for."""
    from playwright.sync_api import expect

    page.goto(root + place)
    page.locator("h1").first.wait_for()
    expect(page.locator(".loading")).to_have_count(0, timeout=PATIENCE_S * 1000)
