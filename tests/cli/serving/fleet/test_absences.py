"""What was made while a broker was down, against real brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import until

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.cli.serving.fleet.absences import Absences
from rocketpipe.clock import SystemClock
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.requests.groups import (
    GetAllGroupConfig,
    GroupList,
    UpdateAndCreateGroupList,
)
from rocketpipe.protocol.requests.topics import (
    GetAllTopicConfig,
    TopicList,
    UpdateAndCreateTopicList,
)
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig

pytestmark = pytest.mark.scenario


class Brokers:
    """Three brokers; one of them is taken for dead now and then."""

    def __init__(self, caller: Caller, addresses: dict[str, str]) -> None:
        self.caller = caller
        self.addresses = addresses
        self.absences = Absences(caller, SystemClock(), self.others)

    def others(self, name: str) -> list[str]:
        return [address for each, address in self.addresses.items() if each != name]

    async def make(self, topic: str, *names: str) -> None:
        for name in names:
            topics = TopicSettings(
                name=topic,
                read_queues=3,
                write_queues=3,
                attributes={"+message.type": "FIFO"},
            )
            groups = GroupList(groups=(GroupSettings(name=f"g-{topic}", max_retries=5),))
            for request in (
                UpdateAndCreateTopicList(wanted=TopicList(topics=(topics,))),
                UpdateAndCreateGroupList(wanted=groups),
            ):
                await self.caller.call(self.addresses[name], request, 10_000)

    async def made(self, name: str) -> dict[str, TopicSettings]:
        reply = await self.caller.call(self.addresses[name], GetAllTopicConfig(), 10_000)
        return reply.table.topics

    async def groups(self, name: str) -> dict[str, GroupSettings]:
        reply = await self.caller.call(self.addresses[name], GetAllGroupConfig(), 10_000)
        return reply.table.groups

    async def away(self, name: str) -> None:
        self.absences.begin(name)
        self.absences.begin(name)  # it dies again as it starts
        await until(lambda: not self.absences._working)

    async def back(self, name: str) -> None:
        self.absences.end(name, self.addresses[name])
        await until(lambda: not self.absences._working)


@asynccontextmanager
async def three(directory: Path) -> AsyncIterator[Brokers]:
    async with AsyncExitStack() as stack:
        addresses = {}
        for name in ("b-0", "b-1", "b-2"):
            data = directory / name
            config = BrokerConfig(data=data, port=0, name=name, store=StoreConfig.embedded(data))
            addresses[name] = await stack.enter_async_context(broker(config))
        brokers = Brokers(await stack.enter_async_context(Caller()), addresses)
        await stack.enter_async_context(brokers.absences.watched())
        yield brokers


async def test_what_all_others_got_meanwhile_is_made_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with three(tmp_path) as brokers:
        await brokers.make("before", "b-0", "b-2")
        await brokers.away("b-1")
        await brokers.make("meanwhile", "b-0", "b-2")
        await brokers.make("at-one", "b-0")
        await brokers.back("b-1")

        made = await brokers.made("b-1")
        assert "before" not in made
        assert "at-one" not in made
        assert "b-0" not in made, "each has a topic of its own name"
        assert made["meanwhile"] == (await brokers.made("b-0"))["meanwhile"]
        assert made["meanwhile"].attributes == {"message.type": "FIFO"}
        assert (await brokers.groups("b-1"))["g-meanwhile"].max_retries == 5
        assert caplog.messages[-1] == (
            "b-1 has what was made while it was down: meanwhile, g-meanwhile"
        )


async def test_it_is_not_done_for_what_was_there_when_it_died_again(tmp_path: Path) -> None:
    async with three(tmp_path) as brokers:
        await brokers.away("b-1")
        await brokers.back("b-1")
        await brokers.make("between", "b-0", "b-2")
        await brokers.away("b-1")
        await brokers.back("b-1")
        assert "between" not in await brokers.made("b-1")


async def test_when_nobody_was_there_nothing_was_made(tmp_path: Path) -> None:
    async with three(tmp_path) as brokers:
        everybody = brokers.addresses
        brokers.addresses = {"b-1": everybody["b-1"]}
        brokers.absences.begin("b-1")
        brokers.absences.end("b-1", everybody["b-1"])
        await until(lambda: not brokers.absences._working)


async def test_one_that_is_gone_again_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with three(tmp_path) as brokers:
        await brokers.away("b-1")
        brokers.addresses["b-1"] = "127.0.0.1:1"
        await brokers.back("b-1")
        assert "topic create NAME --if-missing" in caplog.text
