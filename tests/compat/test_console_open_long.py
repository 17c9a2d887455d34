"""A console that is open for long while the cluster is busy: neither it nor the browser grows.

It runs for ``ROCKETPIPE_CONSOLE_SECONDS``, ten minutes by itself, and prints what it measured. It
needs Chromium.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from tests.console.support.browser import Watch, beside, browsing, chromium, console_process, show
from tests.console.support.shop import filled

from rocketpipe import Producer, PushConsumer, ReceivedMessage
from rocketpipe.testing.servers import serving

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

pytestmark = [pytest.mark.compat, pytest.mark.soak]

SECONDS = int(os.environ.get("ROCKETPIPE_CONSOLE_SECONDS", "600"))
#: What is sent a second meanwhile: more than a tail shows.
RATE = 300
#: Where one goes, round and round; a tail and figures are live on their pages.
ROUND = (
    "#/overview",
    "#/topics",
    "#/topics/orders?tab=tail",
    "#/topics/orders?tab=messages",
    "#/groups",
    "#/groups/reader",
    "#/clients",
    "#/brokers/broker-a",
    "#/settings",
)


@dataclass(frozen=True)
class Measured:
    """What is held at a moment, on the same page each time."""

    heap_bytes: int
    nodes: int
    listeners: int
    rss_bytes: int


class Load(threading.Thread):
    """Sends and consumes until it is told to stop."""

    def __init__(self, name_server: str) -> None:
        super().__init__()
        self._name_server = name_server
        self._stop_now = threading.Event()
        self.sent = self.consumed = 0

    def run(self) -> None:
        asyncio.run(self._work())

    def stop(self) -> None:
        self._stop_now.set()
        self.join()

    async def _work(self) -> None:
        consumer = PushConsumer(self._name_server, group="reader")

        @consumer.on("orders")
        async def read(_: ReceivedMessage) -> None:
            self.consumed += 1

        async with Producer(self._name_server) as producer, consumer:
            while not self._stop_now.is_set():
                for number in range(RATE // 10):
                    body = b'{"order": %d, "note": "%s"}' % (number, b"x" * 200)
                    await producer.send("orders", body, tags="paid", keys=[f"K{self.sent}"])
                    self.sent += 1
                await asyncio.sleep(0.1)


def test_neither_side_grows_while_it_is_open(tmp_path: Path) -> None:
    chromium()
    found: list[Measured] = []
    with serving(tmp_path) as servers:
        beside(filled(servers))
        load = Load(servers.name_server)
        load.start()
        try:
            with (
                console_process(servers.name_server) as (pid, root, _),
                browsing() as browser,
            ):
                page = browser.new_page(viewport={"width": 1360, "height": 860})
                watch = Watch(page)
                # A second tab that stays where it is, as one on a wall would.
                wall = browser.new_page()
                show(wall, root, "#/topics/orders?tab=tail")
                session = page.context.new_cdp_session(page)
                until = time.monotonic() + SECONDS
                while time.monotonic() < until:
                    for place in ROUND:
                        show(page, root, place)
                        page.wait_for_timeout(2000)
                    found.append(measured(session, pid))
                assert wall.locator("tr[data-row]").count() > 0
                still(page, root)
                assert watch.said == []
        finally:
            load.stop()
    tell(found, load)
    assert load.sent > SECONDS, "there was a load"
    quarter = len(found) // 4
    assert quarter >= 1, "it takes at least four rounds"
    before, after = found[quarter : 2 * quarter], found[-quarter:]
    for name, slack in (("heap_bytes", 4 << 20), ("nodes", 500), ("listeners", 100),
                        ("rss_bytes", 16 << 20)):  # fmt: skip
        was = fmean(getattr(one, name) for one in before)
        now = fmean(getattr(one, name) for one in after)
        assert now <= was * 1.1 + slack, f"{name}: {was:.0f} grew to {now:.0f}"


def measured(session: CDPSession, pid: int) -> Measured:
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    counters = session.send("Memory.getDOMCounters")
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Measured(
        int(heap),
        counters["nodes"],
        counters["jsEventListeners"],
        pages * os.sysconf("SC_PAGESIZE"),
    )


def still(page: Page, root: str) -> None:
    """The console answers as at the beginning."""
    show(page, root, "#/groups/reader")
    page.locator("tr[data-row]").first.wait_for()


def tell(found: list[Measured], load: Load) -> None:
    print(f"\n{SECONDS} s, {load.sent} sent, {load.consumed} consumed, {len(found)} rounds")  # noqa: T201
    for one in found:
        print(  # noqa: T201
            f"heap {one.heap_bytes / 1e6:.2f} MB  nodes {one.nodes}  listeners {one.listeners}  "
            f"console {one.rss_bytes / 1e6:.1f} MB"
        )
