"""``rocketpipe broker drain``: brokers of this process, which a test ends as `serve` would."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from rocketpipe import Admin, Producer, PushConsumer, ReceivedMessage
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.cli.main import parser_of
from rocketpipe.cli.nouns import draining
from rocketpipe.cli.nouns.draining import CannotDrain, drain
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.fleet import NoBroker
from rocketpipe.errors import ConfigError
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store import roster, set_aside
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.roster import MemberState

pytestmark = pytest.mark.scenario
GONE = "broker-a-1"


class Brokers:
    """A NameServer, and brokers that run until they are ended."""

    def __init__(self, data: Path, names: str, stack: AsyncExitStack) -> None:
        self.data = data
        self.names = names
        self._stack = stack
        self._running: dict[str, AsyncExitStack] = {}

    async def start(self, name: str, root: Path) -> None:
        config = BrokerConfig(
            name=name,
            data=root,
            name_servers=(self.names,),
            port=0,
            store=StoreConfig.embedded(root),
        )
        one = self._running[name] = await self._stack.enter_async_context(AsyncExitStack())
        await one.enter_async_context(broker(config))

    async def end_when_left(self, name: str = GONE) -> None:
        """Do as the process that supervises them."""
        await until(lambda: (known := roster.load(self.data)) and known.member(name) is None)
        await self._running[name].aclose()

    def state(self, name: str = GONE) -> MemberState | None:
        known = roster.load(self.data)
        member = known.member(name) if known is not None else None
        return member.state if member is not None else None


@asynccontextmanager
async def running(data: Path, *, taken: bool = False) -> AsyncIterator[tuple[Brokers, Admin]]:
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(name_server(NamesrvConfig(port=0)))
        made = Brokers(data, names, stack)
        known = roster.begun("broker-a", taken=taken).grown(2)
        known.save(data)
        for member in known.brokers:
            await made.start(member.name, member.root(data))
        admin = await stack.enter_async_context(Admin(names))
        yield made, admin


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(draining, "_TRY_EVERY_S", 0.01)


def options(*words: str) -> argparse.Namespace:
    given = ["broker", "drain", *words, "-o", "json"]
    return parser_of(["broker"], running=True).parse_args(given)


def heard(capsys: pytest.CaptureFixture[str], said: list[str]) -> str:
    """What standard error has had so far."""
    said.append(capsys.readouterr().err)
    return "".join(said)


def names(directory: Path) -> set[str]:
    return {each.name for each in directory.iterdir()}


async def run(admin: Admin, *words: str) -> dict[str, Any]:
    out = io.StringIO()
    assert await drain(admin, Printer("json", out), options(*words)) == 0
    found = json.loads(out.getvalue())
    assert isinstance(found, dict)
    return found


async def test_an_empty_broker_leaves_and_its_files_are_set_aside(tmp_path: Path) -> None:
    async with running(tmp_path) as (made, admin):
        ended = asyncio.create_task(made.end_when_left())
        told = await run(admin, GONE)
        await ended
        place = set_aside.place_of(tmp_path, GONE)
        assert told == {"broker": GONE, "state": "removed", "files": str(place), "unread": 0}
        assert (place / "commitlog").is_dir()
        assert [each.name for each in await admin.brokers.all()] == ["broker-a-0"]
        with pytest.raises(NoBroker, match=GONE):
            await run(admin, GONE)
        with pytest.raises(CannotDrain, match="last broker"):
            await run(admin, "broker-a-0")


async def test_of_the_broker_that_had_the_directory_alone_its_own_files_go(tmp_path: Path) -> None:
    async with running(tmp_path, taken=True) as (made, admin):
        ended = asyncio.create_task(made.end_when_left("broker-a"))
        await run(admin, "broker-a", "--delete")
        await ended
    assert names(tmp_path) == {roster.FILE_NAME, roster.CHANGE_NAME, GONE, "drained"}
    assert names(tmp_path / "drained") == {"broker-a.json"}


async def test_it_waits_for_groups_and_what_came_last_is_read_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    seen: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with running(tmp_path) as (made, admin), Producer(made.names) as producer:
        await admin.topics.create("orders", queues=1)
        await admin.topics.create("unread", queues=1)
        queues = await admin.offsets.ends("orders")
        (mine,) = [queue for queue in queues if queue.broker_name == GONE]
        await producer.send("orders", b"first", queue=mine)

        with pytest.raises(
            CannotDrain, match=r"no group reads orders \(1\) at broker-a-1.*nothing"
        ):
            await run(admin, GONE)
        assert made.state() == MemberState.SERVING

        await admin.groups.create("shop")
        await admin.offsets.commit("shop", dict.fromkeys(queues, 0))  # type: ignore[arg-type]
        with pytest.raises(CannotDrain, match=r"1 left: shop of orders 1 \(no members\), after 0"):
            await run(admin, GONE, "--timeout", "0.05")
        assert made.state() == MemberState.DRAINING
        capsys.readouterr()
        interrupted = asyncio.create_task(run(admin, GONE))
        await until(lambda: "1 left" in heard(capsys, said))
        interrupted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await interrupted
        assert "broker-a-1 stays closed to new messages" in capsys.readouterr().err
        settings = await admin.brokers.settings(GONE)
        assert settings["brokerPermission"] == "4"
        # Who has not heard of it is served, and waited for.
        await producer.send("orders", b"second", queue=mine)
        assert (await producer.send("orders", b"elsewhere")).queue.broker_name in (
            "broker-a-0",
            GONE,
        )

        drained = asyncio.create_task(run(admin, GONE))
        ended = asyncio.create_task(made.end_when_left())
        consumer = PushConsumer(made.names, group="shop", start="first")
        consumer.subscribe("orders", handle)
        async with consumer:
            await until(lambda: len(seen) == 3)
            told = await drained
        await ended
        assert told["state"] == "removed"
        assert set(seen) == {b"first", b"second", b"elsewhere"}
        ends = set_aside.load_ends(tmp_path, GONE)
        assert ends is not None
        assert ends["orders"][0] >= 2


async def test_one_that_is_closed_takes_nothing_and_cancelled_it_takes_all(tmp_path: Path) -> None:
    async with running(tmp_path) as (made, admin), Producer(made.names) as producer:
        await admin.topics.create("orders", queues=1)
        await admin.name_servers.set_order("orders", {"broker-a-0": 1, GONE: 1})
        (mine,) = [each for each in await admin.offsets.ends("orders") if each.broker_name == GONE]
        known = roster.load(tmp_path)
        assert known is not None
        # As one leaves it that was killed before it took the broker out.
        known.with_state(GONE, MemberState.CLOSED).save(tmp_path)
        await admin.brokers.change(GONE, draining.CLOSED)
        assert (await producer.send("orders", b"x")).queue.broker_name == "broker-a-0"

        assert await run(admin, GONE, "--cancel") == {"broker": GONE, "state": "serving"}
        assert made.state() == MemberState.SERVING
        assert (await producer.send("orders", b"x", queue=mine)).queue == mine


async def test_killed_between_roster_and_move_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as (made, admin):
        killed = asyncio.CancelledError()

        def kill(_: Path) -> None:
            raise killed

        with monkeypatch.context() as patched, suppress(asyncio.CancelledError):
            patched.setattr(set_aside, "finish_leaving", kill)
            await run(admin, GONE)
        known = roster.load(tmp_path)
        assert known is not None
        assert [each.name for each in known.leaving] == [GONE]
        assert (tmp_path / GONE / "commitlog").is_dir()
        await made.end_when_left()

        told = await run(admin, GONE)  # another broker tells where its directory is
        assert told["state"] == "removed"
        assert not (tmp_path / GONE).exists()


async def test_two_at_once_and_wrong_directories_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    async with running(data) as (made, admin):
        with roster.changing(data), pytest.raises(CannotDrain, match="another `broker drain`"):
            await run(admin, GONE)
        with pytest.raises(ConfigError, match=r"--data.*is not the directory of broker-a-1"):
            await run(admin, GONE, "--data", str(tmp_path))
        await admin.brokers.change("broker-a-0", {"brokerPermission": "4"})
        with pytest.raises(CannotDrain, match="no other broker of cluster"):
            await run(admin, GONE)
        assert made.state() == MemberState.SERVING


async def test_one_that_runs_by_itself_is_drained_and_nothing_is_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    async with running(data) as (made, admin):
        await made.start("alone", tmp_path / "alone")
        told = await run(admin, "alone", "--leave-unread")
        assert told["state"] == "drained"
        assert told["next"].startswith("stop it")
        assert (tmp_path / "alone" / "commitlog").is_dir()
        assert (await admin.brokers.settings("alone"))["brokerPermission"] == "4"


async def test_a_batch_committed_through_it_is_not_written_again_through_another(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (made, admin):
        await admin.topics.create("orders", queues=1)

        async def write() -> bool:
            async with Producer(made.names) as producer:
                async with producer.staged("billing", 7) as batch:
                    await batch.send("orders", b"once")
                return bool(batch.was_committed)

        assert not await write()
        ended = asyncio.create_task(made.end_when_left("broker-a-0"))
        await run(admin, "broker-a-0", "--leave-unread")
        await ended
        assert await write()
        assert sum(end.end for end in (await admin.offsets.ends("orders")).values()) <= 1
