"""A group's place: at the broker, in a file, and where it begins."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.client.consumer.support.fake_broker import Desk, desk_and_session

from rocketpipe.client.consumer.group.offsets import (
    AT_ONCE,
    BrokerOffsets,
    FileOffsets,
    OffsetStore,
    offsets_path,
)
from rocketpipe.client.session import Session
from rocketpipe.errors import (
    ConnectionLost,
    InvalidName,
    NoRoute,
    OffsetsTaken,
    RequestRejected,
)
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import (
    UpdateConsumerOffset,
)
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.files.snapshot import SnapshotDamaged


def queue(number: int = 0, topic: str = "t") -> MessageQueue:
    return MessageQueue(topic=topic, broker_name="a", queue_id=number)


def at(offset: int) -> QueueOffset:
    return QueueOffset(offset)


# In memory, whatever is behind it


@pytest.fixture(params=["file", "broker"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> OffsetStore:
    if request.param == "broker":
        return BrokerOffsets(Session("127.0.0.1:1"), "g")
    return FileOffsets(tmp_path / "group" / "offsets.json")


def test_progress_only_grows_unless_it_is_meant_to_go_back(store: OffsetStore) -> None:
    assert store.noted(queue()) is None
    store.update(queue(), at(5))
    store.update(queue(), at(3))
    assert store.noted(queue()) == 5
    store.update(queue(), at(3), increase_only=False)
    assert store.noted(queue()) == 3
    assert store.noted(queue(1)) is None


def test_a_frozen_offset_stays_until_the_queue_is_forgotten(store: OffsetStore) -> None:
    store.update(queue(), at(50))
    store.freeze(queue(), at(7))
    store.update(queue(), at(51))
    store.update(queue(), at(0), increase_only=False)
    assert store.noted(queue()) == 7
    store.forget(queue())
    store.update(queue(), at(8))
    assert store.noted(queue()) == 8


# In a file


async def test_a_file_keeps_what_was_saved_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "offsets.json"
    store = FileOffsets(path)
    assert await store.read(queue()) is None
    assert not path.exists()
    for number in range(3):
        store.update(queue(number), at(10 + number))
    await store.persist([queue(0), queue(1)])
    again = FileOffsets(path)
    assert [await again.read(queue(number)) for number in range(3)] == [10, 11, None]
    again.update(queue(2), at(12))
    again.forget(queue(0))
    await again.persist([queue(0), queue(2)])
    assert [await FileOffsets(path).read(queue(number)) for number in range(3)] == [10, 11, 12]


async def test_a_file_that_java_wrote_is_read_and_ours_looks_like_it(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(
        '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"t"'
        "\n\t\t}:4711\n\t}\n}"
    )
    store = FileOffsets(path)
    assert await store.read(queue()) == 4711
    store.update(queue(), at(4712))
    await store.persist([queue()])
    assert '"offsetTable":{{"brokerName":"a","queueId":0,"topic":"t"}:4712}' in path.read_text()


async def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    store = FileOffsets(path)
    store.update(queue(), at(1))
    await store.persist([queue()])
    path.unlink()
    await store.persist([queue()])
    assert not path.exists()


async def test_a_damaged_file_gives_way_to_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    store = FileOffsets(path)
    for offset in (1, 2):
        store.update(queue(), at(offset))
        await store.persist([queue()])
    path.write_text("{torn")
    assert await FileOffsets(path).read(queue()) == 1
    path.with_name("offsets.json.bak").write_text("")
    with pytest.raises(SnapshotDamaged, match=r"offsets\.json"):
        await FileOffsets(path).read(queue())


async def test_a_file_has_one_user_at_a_time_who_reads_it_anew(tmp_path: Path) -> None:
    path = tmp_path / "id" / "g" / "offsets.json"
    one, other = FileOffsets(path), FileOffsets(path)
    async with one:
        one.update(queue(), at(1))
        await one.persist([queue()])
        with pytest.raises(
            OffsetsTaken, match=r"offsets\.json is in use .*instance=.*offsets_root="
        ):
            await other.__aenter__()
        one.update(queue(), at(2))
        await one.persist([queue()])  # the file is another one now, and still taken
        with pytest.raises(OffsetsTaken):
            await other.__aenter__()
    async with other:
        assert await other.read(queue()) == 2
        other.update(queue(), at(3))
        await other.persist([queue()])
    async with one:
        assert await one.read(queue()) == 3


async def test_a_file_that_another_process_uses_is_taken_until_that_ends(tmp_path: Path) -> None:
    script = (
        "import asyncio, pathlib, sys\n"
        "from rocketpipe.client.consumer.group.offsets import FileOffsets\n"
        "async def main():\n"
        "    async with FileOffsets(pathlib.Path(sys.argv[1])):\n"
        "        print('taken', flush=True)\n"
        "        sys.stdin.read()\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "offsets.json"
    user = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert user.stdout is not None
    assert await user.stdout.readline() == b"taken\n"
    with pytest.raises(OffsetsTaken):
        await FileOffsets(path).__aenter__()
    user.kill()  # a lock does not outlive its process, however that ends
    await user.wait()
    async with FileOffsets(path) as store:
        assert await store.read(queue()) is None


async def test_a_place_that_cannot_be_made_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DiskError, match="file"):
        await FileOffsets(tmp_path / "file" / "g" / "offsets.json").__aenter__()


def test_the_file_lies_where_rocketmqs_clients_put_it() -> None:
    path = offsets_path("10.0.0.1@DEFAULT", "billing")
    assert path == Path.home() / ".rocketmq_offsets/10.0.0.1@DEFAULT/billing/offsets.json"
    assert offsets_path("id", "g", Path("x")) == Path("x/id/g/offsets.json")


@pytest.mark.parametrize("client_id", ["", "..", "a/b", "a\\b", "a\0b"])
def test_an_id_that_leads_elsewhere_is_refused(client_id: str) -> None:
    with pytest.raises(InvalidName, match="client id"):
        offsets_path(client_id, "g")


# At the broker


async def test_the_broker_is_told_what_changed_and_asked_what_it_knows() -> None:
    async with desk_and_session(t={"a": 4}) as (desk, session):
        store = BrokerOffsets(session, "g")
        assert await store.read(queue()) is None
        desk.offsets["t", 1] = 8
        assert await store.read(queue(1)) == 8
        store.update(queue(0), at(5))
        store.update(queue(1), at(8))
        store.update(queue(2), at(9))
        await store.persist([queue(0), queue(1), queue(3)])
        told = [request for request in desk.asked if isinstance(request, UpdateConsumerOffset)]
        assert [(each.queue_id, each.commit_offset) for each in told] == [(0, 5)]
        assert told[0].consumer_group == "g"
        assert told[0].broker_name == "a"
        await store.persist([queue(0)])
        assert desk.count(UpdateConsumerOffset) == 1


async def test_more_offsets_than_go_at_once_are_all_saved() -> None:
    count = 2 * AT_ONCE + 1
    async with desk_and_session(t={"a": count}) as (desk, session):
        store = BrokerOffsets(session, "g")
        for each in desk.queues("t"):
            store.update(each, at(each.queue_id + 1))
        await store.persist(desk.queues("t"))
        assert desk.offsets == {("t", number): number + 1 for number in range(count)}


async def test_what_could_not_be_saved_is_told_and_saved_the_next_time() -> None:
    async with desk_and_session(t={"a": 2}) as (desk, session):
        store = BrokerOffsets(session, "g")
        store.update(queue(), at(5))
        store.update(queue(0, "nowhere"), at(1))
        with pytest.raises(NoRoute, match="nowhere"):
            await store.persist([queue(0, "nowhere"), queue()])
        assert desk.offsets == {("t", 0): 5}
        store.update(queue(), at(6))
        desk.refuse["UpdateConsumerOffset"] = RequestRejected(ResponseCode.SYSTEM_BUSY, "busy")
        with pytest.raises(RequestRejected, match="busy"):
            await store.persist([queue()])
        desk.refuse.clear()
        await store.persist([queue()])
        assert desk.offsets == {("t", 0): 6}


async def test_asking_does_not_undo_what_is_noted() -> None:
    async with desk_and_session(t={"a": 2}) as (desk, session):
        store = BrokerOffsets(session, "g")
        desk.offsets["t", 0] = 3
        store.update(queue(), at(7))
        assert await store.read(queue()) == 3
        assert store.noted(queue()) == 7
        await store.persist([queue()])
        assert desk.offsets["t", 0] == 7


async def test_an_error_is_not_taken_for_nothing_there() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        desk.refuse["QueryConsumerOffset"] = RequestRejected(ResponseCode.SYSTEM_ERROR, "broken")
        store = BrokerOffsets(session, "g")
        with pytest.raises(RequestRejected, match="broken"):
            await store.read(queue())


# Replicas


async def test_offsets_are_the_leaders_or_else_anybodys() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        follower = Desk()
        follower.offsets["t", 0] = 5
        async with Server.bound("127.0.0.1", 0) as server:
            async with server.serving(Router(follower).answer):
                desk.offsets["t", 0] = 7
                desk.replicas["a"] = {0: desk.address, 1: server.address}
                offsets = BrokerOffsets(session, "g")
                assert await offsets.read(queue()) == 7
                desk.replicas["a"] = {0: "127.0.0.1:1", 1: server.address}
                await session.routes.refresh("t")
                assert await offsets.read(queue()) == 5
                offsets.update(queue(), at(9))
                await offsets.persist([queue()])
                assert follower.offsets["t", 0] == 9
                # A follower that knows of none is no reason to begin anew.
                follower.offsets.clear()
                with pytest.raises((ConnectionLost, NoRoute)):
                    await offsets.read(queue())
