"""A client that is not ours, as it is on its registry, joins a group for a while.

It is npm's ali-ons where Node.js is there or can be had, else PyPI's rocketmq; the programs around
them are those of the compatibility tests. The group, of some smaller carriers, has a member of ours
too: RocketMQ's rules make the two share its queues, and what the guest leaves is taken over.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from demo.tally import Tally
from rocketpipe import PushConsumer, PushTuning, ReceivedMessage

if TYPE_CHECKING:
    from tests.compat.clients.catalog import Client, Start
    from tests.compat.clients.driver import Driver

GROUP: Final = "small-carriers"
CARRIERS: Final = ("VX", "FL", "AS", "F9", "YV", "HA")
EXPRESSION: Final = " || ".join(CARRIERS)
CONSUMER: Final = "guest"
LOOK_AGAIN_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Guest:
    """Someone else's client, installed, and how its program is started."""

    name: str
    start: Start


class NoGuest(Exception):
    """No client of someone else can be had on this machine; the message says why."""


def invite(scratch: Path, name_server: str = "") -> Guest:
    """Install a client of someone else, if it is not there yet.

    Raises:
        NoGuest: If none can be had.
    """
    try:
        import pytest
        from tests.compat.clients import catalog
    except ImportError as error:
        raise NoGuest(f"its program is part of the tests, which are not here: {error}") from error
    reasons = []
    found: tuple[Client, ...] = (catalog.ALI_ONS, catalog.ROCKETMQ_PYTHON)
    for client in found:
        try:
            return Guest(client.name, client.start(name_server, CONSUMER, scratch))
        except pytest.skip.Exception as reason:
            reasons.append(f"{client.name}: {reason}")
    raise NoGuest("; ".join(reasons))


class SmallCarriers:
    """The group: our member, the guest, and what each of them got."""

    def __init__(self, total: int) -> None:
        #: What either got; and what the guest got.
        self.tally = Tally(total)
        self.guests = Tally(total)
        self.guest_name = ""
        #: Why there was no guest, or why it left early.
        self.trouble = ""
        self._heard = 0

    def consumer(self, name_server: str, topic: str) -> PushConsumer:
        """Our member of the group; it consumes within its ``async with``."""
        consumer = PushConsumer(
            name_server,
            group=GROUP,
            start="first",
            tuning=PushTuning(pull_count=256, persist_every_ms=1000),
        )
        consumer.subscribe(topic, self.handle, tags=EXPRESSION)
        return consumer

    async def handle(self, message: ReceivedMessage) -> None:
        """Note what our member got."""
        self.tally.add(json.loads(message.body)["id"])

    async def host(
        self,
        scratch: Path,
        name_server: str,
        topic: str,
        until: Callable[[], bool],
    ) -> None:
        """Have the guest in the group until something is so; whatever goes wrong is noted."""
        try:
            guest = await asyncio.to_thread(invite, scratch, name_server)
            self.guest_name = guest.name
            with ExitStack() as stack:
                driver = stack.enter_context(_driving(guest, scratch))
                await asyncio.to_thread(
                    driver.consume, CONSUMER, GROUP, topic, expression=EXPRESSION
                )
                while not until():
                    self._hear(driver)
                    await asyncio.sleep(LOOK_AGAIN_S)
                await asyncio.to_thread(driver.stop, CONSUMER)
                self._hear(driver)
                await asyncio.to_thread(stack.close)
        except NoGuest as reason:
            self.trouble = str(reason)
        except Exception as error:  # of a program that is not ours: the demo goes on without it
            self.trouble = f"{type(error).__name__}: {error}"

    def _hear(self, driver: Driver) -> None:
        received = driver.received(CONSUMER)
        for message in received[self._heard :]:
            number = json.loads(message.body)["id"]
            self.guests.add(number)
            self.tally.add(number)
        self._heard = len(received)


def _driving(guest: Guest, scratch: Path) -> AbstractContextManager[Driver]:
    from tests.compat.clients.driver import driving

    return driving(CONSUMER, guest.start.command, scratch, guest.start.environ)
