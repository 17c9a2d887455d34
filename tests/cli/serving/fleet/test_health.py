"""What one port tells of several brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

from rocketpipe.cli.serving.fleet.health import FleetHealth, merged
from rocketpipe.clock import SystemClock
from rocketpipe.health.http_port import Watched, health_port
from rocketpipe.metrics import Kind, single


class Brokers:
    """Brokers as they are seen from here: a port each, or none."""

    def __init__(self) -> None:
        self.children: dict[str, Any] = {}
        self.down: dict[str, str] = {}
        self.wrong: dict[str, str] = {}

    def problems(self) -> dict[str, str]:
        return self.down


@asynccontextmanager
async def watching(*names: str) -> AsyncIterator[tuple[Brokers, FleetHealth]]:
    brokers = Brokers()
    async with AsyncExitStack() as stack:
        for name in names:
            watched = Watched()
            watched.started = True
            watched.add(
                lambda name=name: brokers.wrong.get(name),  # type: ignore[misc]
                lambda name=name: [  # type: ignore[misc]
                    single("messages", Kind.COUNTER, "Messages.", 7, node_id=name)
                ],
            )
            at = await stack.enter_async_context(health_port("127.0.0.1", 0, watched))
            brokers.children[name] = SimpleNamespace(told={"http": at}, starts=2)
        health = FleetHealth(brokers, SystemClock())  # type: ignore[arg-type]
        health.started = True
        yield brokers, health


async def test_it_is_ready_when_all_are() -> None:
    async with watching("a-0", "a-1") as (brokers, health):
        health.started = False
        assert await health.problems() == ["it is still starting"]
        health.started = True
        assert await health.problems() == []
        brokers.wrong["a-1"] = "the disk is full"
        assert await health.problems() == ["a-1: the disk is full"]
        brokers.down["a-0"] = "a-0 is down: died"
        assert await health.problems() == ["a-0 is down: died", "a-1: the disk is full"]


async def test_one_that_does_not_answer_has_a_problem_and_no_measurements() -> None:
    async with watching("a-0") as (brokers, health):
        brokers.children["a-1"] = SimpleNamespace(told={"http": "127.0.0.1:1"}, starts=1)
        assert await health.problems() == ["a-1 does not answer"]
        text = await health.metrics(SystemClock())
        assert 'messages{node_id="a-0"} 7\n' in text
        assert 'messages{node_id="a-1"}' not in text


async def test_measurements_of_all_are_one_text_with_each_family_once() -> None:
    async with watching("a-0", "a-1") as (brokers, health):
        brokers.down["a-1"] = "a-1 is down: died"
        text = await health.metrics(SystemClock())
        lines = text.splitlines()
        assert len({line for line in lines if line.startswith("#")}) == sum(
            line.startswith("#") for line in lines
        )
        assert 'rocketpipe_broker_up{node_id="a-0"} 1' in lines
        assert 'rocketpipe_broker_up{node_id="a-1"} 0' in lines
        assert 'rocketpipe_broker_starts_total{node_id="a-0"} 2' in lines


def test_a_line_that_does_not_say_whose_it_is_gets_its_broker() -> None:
    head = "# HELP m Text of it.\n# TYPE m gauge\n"
    texts = {
        "a": head + 'm{node_id="a",topic="t"} 1\nm{name="x"} 2\n',
        "b": head + "m 3\n# HELP n Other.\n# TYPE n gauge\n",
    }
    assert merged(texts) == (
        head + 'm{node_id="a",topic="t"} 1\nm{node_id="a",name="x"} 2\nm{node_id="b"} 3\n'
        "# HELP n Other.\n# TYPE n gauge\n"
    )
