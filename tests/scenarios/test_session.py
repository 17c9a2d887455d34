"""Sessions through what happens to servers and processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.support.session_parts import Part
from tests.waiting import PATIENCE_S

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute
from rocketpipe.model.route import MessageQueue
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing import ManualClock, cluster

pytestmark = pytest.mark.scenario


@asynccontextmanager
async def running_broker(
    data: Path, name_server_address: str, *, port: int = 0, name: str = "broker-a"
) -> AsyncIterator[str]:
    config = BrokerConfig(
        data=data,
        name=name,
        name_servers=(name_server_address,),
        port=port,
        store=StoreConfig.embedded(data),
    )
    async with broker(config) as address:
        yield address


async def until(holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - what is waited for happens beyond sockets
            await asyncio.sleep(0.01)


async def test_members_of_a_group_hear_of_each_other(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Session(servers.name_server) as first:
        early = Part(consumes=["g"], topics=["TBW102"])
        first.join(early)
        await first.routes.get("TBW102")
        await first.beat()
        async with Session(servers.name_server) as second:
            second.join(Part(consumes=["g"], topics=["TBW102"]))
            await second.routes.get("TBW102")
            heard = len(early.changed_groups)
            await second.beat()

            async def joined() -> bool:
                return len(early.changed_groups) > heard

            await until(joined)
            heard = len(early.changed_groups)
        await until(joined)  # and of the one that left
        async with Admin(first) as admin:
            (member,) = await admin.groups.members("g")
        assert member.client_id == first.client_id


async def test_a_broker_that_was_started_again_knows_its_clients_at_once(
    tmp_path: Path, lasting_port: int
) -> None:
    clock = ManualClock()  # it stands still: no heartbeat is due
    async with name_server(NamesrvConfig(port=0)) as address, AsyncExitStack() as life:
        started = running_broker(tmp_path, address, port=lasting_port)
        broker_address = await life.enter_async_context(started)
        async with Session(address, clock=clock) as session:
            session.join(Part(consumes=["g"], topics=["TBW102"]))
            await session.routes.get("TBW102")
            await session.beat()
            await life.aclose()
            async with running_broker(tmp_path, address, port=lasting_port):
                queue = MessageQueue(topic="TBW102", broker_name="broker-a", queue_id=0)
                await session.ends_of(queue, broker_address)  # any call connects anew

                async def known() -> bool:
                    async with Admin(address) as admin:
                        members = await admin.groups.members("g")
                    return [member.client_id for member in members] == [session.client_id]

                await until(known)


async def test_routes_outlive_a_name_server_and_its_return(
    tmp_path: Path, lasting_port: int
) -> None:
    clock = ManualClock()
    async with AsyncExitStack() as life:
        config = NamesrvConfig(port=lasting_port)
        address = await life.enter_async_context(name_server(config))
        async with (
            running_broker(tmp_path, address) as broker_address,
            Session(address, clock=clock) as session,
        ):
            known = await session.routes.get("TBW102")
            await life.aclose()
            session.routes.forget("TBW102")
            assert await session.routes.get("TBW102") == known  # nobody answers
            async with name_server(config):
                session.routes.forget("TBW102")
                route = await session.routes.get("TBW102")  # it may not know the broker yet
                queue = route.readable_queues("TBW102")[0]
                assert session.leader_of(queue, route) == broker_address
                with pytest.raises(NoRoute):
                    await session.routes.get("unknown")


async def test_a_session_runs_on_uvloop_too(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")
    async with cluster(tmp_path) as servers:

        async def work() -> str:
            async with Session(servers.name_server) as session:
                session.join(Part(produces=["p"], topics=["TBW102"]))
                await session.routes.get("TBW102")
                await session.beat()
                return type(asyncio.get_running_loop()).__module__

        def elsewhere() -> str:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(work())

        assert await asyncio.to_thread(elsewhere) == "uvloop"


FORKED = """
import asyncio, os, sys
from rocketpipe.client.session import Session
from rocketpipe.errors import ProcessForked

session, prepared = Session(sys.argv[1]), Session(sys.argv[1])


async def in_child():
    try:
        await session.routes.refresh("TBW102")
    except ProcessForked as error:
        print(error.hint, flush=True)
    async with prepared:
        await prepared.routes.get("TBW102")
        print("prepared", f"@{os.getpid()}#" in prepared.client_id, flush=True)


with asyncio.Runner() as parent:
    parent.run(session.__aenter__())
    parent.run(session.routes.get("TBW102"))
    if os.fork() == 0:
        with asyncio.Runner() as child:
            child.run(in_child())
        os._exit(0)
    _, status = os.wait()
    parent.run(session.routes.refresh("TBW102"))
    parent.run(session.__aexit__(None, None, None))
    print("parent", os.waitstatus_to_exitcode(status))
"""


async def test_a_forked_child_is_told_and_the_parent_goes_on(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", FORKED, servers.name_server],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stdout.splitlines() == [
        "open clients after the fork, in each process its own",
        "prepared True",
        "parent 0",
    ], done.stderr


CLIENTS_FORKED = """
import asyncio, os, signal, sys
from rocketpipe import Admin, Producer, PullConsumer, PushConsumer, SimpleConsumer
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.errors import ProcessForked

address = sys.argv[1]
producer = Producer(address, group="p", batching=Batching())
pulling, simple = PullConsumer(address, group="c"), SimpleConsumer(address, group="s")
pushed, admin = PushConsumer(address, group="h"), Admin(address)
clients = (producer, pulling, simple, pushed, admin)


@pushed.on("TBW102")
def handle(message):
    pass


async def use():
    for what in (
        lambda: producer.send("t", b"never"),
        lambda: producer.request("t", b"never"),
        lambda: pulling.poll(),
        lambda: pulling.commit(),
        lambda: simple.receive(),
    ):
        try:
            await what()
        except ProcessForked:
            continue
        print("not refused", what.__code__.co_firstlineno, flush=True)
    for client in clients:  # as a block does that ends in the child
        await client.__aexit__(None, None, None)


async def each(method, *args):
    for client in clients:
        await getattr(client, method)(*args)


async def inside():
    if os.fork() == 0:
        signal.alarm(20)
        await use()
        os._exit(0)
    print("inside", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)


with asyncio.Runner() as parent:
    parent.run(each("__aenter__"))
    parent.run(producer.send("t", b"before"))
    if os.fork() == 0:
        signal.alarm(20)
        with asyncio.Runner() as child:
            child.run(use())
        os._exit(0)
    print("outside", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
    parent.run(inside())
    parent.run(producer.send("t", b"after"))
    parent.run(each("__aexit__", None, None, None))
    print("parent")
"""


async def test_a_forked_child_is_refused_at_once_and_leaves_its_parents_blocks_alone(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as servers:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-W", "ignore", "-c", CLIENTS_FORKED, servers.name_server],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    assert done.stdout.splitlines() == ["outside 0", "inside 0", "parent"], done.stderr
