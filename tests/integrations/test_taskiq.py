"""Taskiq's own worker on our broker: labels are kept to, and no kill loses a task."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen

import pytest
from taskiq import BrokerMessage
from taskiq.acks import AckableMessage
from tests.integrations.support.programs import (
    KillableServers,
    kill_group,
    killable_servers,
    program,
)
from tests.integrations.support.taskiq_app import read_notes
from tests.scenarios.test_kombu_name_servers import Cluster
from tests.waiting import until

from rocketpipe import PoppedMessage
from rocketpipe.errors import InvalidName, MessageRefused, SessionClosed
from rocketpipe.integrations import taskiq
from rocketpipe.integrations.taskiq import RocketPipeBroker
from rocketpipe.testing import serving

NOWHERE = "127.0.0.1:1"
APP = "tests.integrations.support.taskiq_app:broker"
#: How many orders there are that must be kept.
KEYS = 7
#: What a worker has in hand at most: a hundred that run, and a receive of each feed.
IN_HAND = 150
scenario = pytest.mark.scenario


def task(what: str, **labels: object) -> BrokerMessage:
    return BrokerMessage(task_id=what, task_name="note", message=what.encode(), labels={**labels})


def worker(
    scratch: Path, name_server: str, *words: str, **environment: str
) -> AbstractContextManager[Popen[bytes]]:
    command = ["taskiq", "worker", APP, "--workers", "1", *words]
    facts = {"ROCKETPIPE_NAMESRV": name_server, "TASK_NOTES": str(scratch / "notes")}
    return program(command, scratch / "worker.log", {**facts, **environment})


@asynccontextmanager
async def client(name_server: str, **options: object) -> AsyncIterator[RocketPipeBroker]:
    broker = RocketPipeBroker(name_server, **options)  # type: ignore[arg-type]
    await broker.startup()
    try:
        yield broker
    finally:
        await broker.shutdown()


# What is refused


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"priorities": 0}, "priorities 0: it goes from 1 to 16"),
        ({"invisible_ms": 10}, "invisible_ms 10: it goes from 1000"),
        ({"prefetch": 33}, "prefetch 33"),
        ({"queues": "mail"}, "give a list of names"),
        ({"queues": []}, "give a list of names"),
        ({"queues": ["mail", "mail-ordered"]}, "would both use the topic 'mail-ordered'"),
        ({"queues": ["m-priority-1", "m"], "priorities": 2}, "both use the topic 'm-priority-1'"),
        ({"listen_to": ["mial"]}, "no queue 'mial', only taskiq"),
    ],
)
def test_options_that_cannot_be_are_told_at_once(options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RocketPipeBroker(NOWHERE, **options)  # type: ignore[arg-type]


def test_names_that_cannot_be_are_told_at_once() -> None:
    with pytest.raises(InvalidName):
        RocketPipeBroker(NOWHERE, queues=["a b"])
    with pytest.raises(InvalidName):
        RocketPipeBroker(NOWHERE, group="a b")


async def test_tasks_are_sent_between_startup_and_shutdown() -> None:
    broker = RocketPipeBroker(NOWHERE)
    with pytest.raises(SessionClosed, match=r"await broker\.startup"):
        await broker.kick(task("early"))
    await broker.shutdown()  # is no error


async def test_labels_are_looked_at_before_anybody_is_asked() -> None:
    async with client(NOWHERE) as broker:
        with pytest.raises(ValueError, match="no queue 'mail'"):
            await broker.kick(task("t", queue="mail"))
        with pytest.raises(ValueError, match=r"priority': 1 is more than 0.*priorities="):
            await broker.kick(task("t", priority="1"))
        with pytest.raises(ValueError, match="label 'delay'"):
            await broker.kick(task("t", delay="soon"))


# On real servers


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("servers")) as servers:
        yield servers.name_server


@scenario
async def test_a_worker_of_taskiqs_keeps_to_all_labels(name_server: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with client(name_server, queues=["label-tasks", "second-tasks"], priorities=3) as broker:
        note = broker.register_task(_nothing, task_name="note")
        fails = broker.register_task(_nothing, task_name="fails-twice", retry_on_error=True)
        slow = broker.register_task(_nothing, task_name="slow")
        for number in range(12):  # there before any worker is
            await note.kicker().with_labels(priority=number % 3).kiq("rank", number)
        due = time.time() + 3
        await note.kicker().with_labels(delay=3).kiq("later", 0, due)
        moment = datetime.now(UTC) + timedelta(seconds=3)
        await note.kicker().with_labels(deliver_at=moment).kiq("then", 0, moment.timestamp())
        await note.kicker().with_labels(queue="second-tasks").kiq("elsewhere", 0)
        for number in range(30):
            await note.kicker().with_labels(order_key=f"key-{number % 3}").kiq("ordered", number)
        await fails.kiq("tried")
        await slow.kiq("renewed", 5)  # longer than a task is hidden for
        with worker(tmp_path, name_server, TASK_QUEUE="label-tasks") as running:
            await until(lambda: len(read_notes(notes)) >= 50)
            running.terminate()
            assert running.wait(60) == 0
    found = read_notes(notes)
    counts = Counter(each["what"] for each in found)
    assert counts == {
        "rank": 12, "later": 1, "then": 1, "elsewhere": 1, "ordered": 30, "tried": 3,
        "renewed begun": 1, "renewed": 1,
    }  # fmt: skip
    assert all(each["at"] >= each["due"] for each in found if "due" in each)
    ranks = [each["number"] % 3 for each in found if each["what"] == "rank"]
    assert ranks[:8] == sorted(ranks[:8], reverse=True)  # those of the first receive
    for key in range(3):
        of_key = [e["number"] for e in found if e["what"] == "ordered" and e["number"] % 3 == key]
        assert of_key == sorted(of_key)


async def _nothing(*args: object) -> None:
    """Stands for a task that another program has."""


@scenario
async def test_a_worker_may_take_one_queue_of_several(
    name_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = ["mine-tasks", "others-tasks"]
    async with client(name_server, queues=queues) as broker:
        await broker.kick(task("other", queue="others-tasks"))
        await broker.kick(task("mine"))
        monkeypatch.setenv("ROCKETPIPE_TASKIQ_QUEUES", "mine-tasks")
        listening = broker.listen()
        assert await _done_with(listening) == b"mine"
        await listening.aclose()
    monkeypatch.setenv("ROCKETPIPE_TASKIQ_QUEUES", "mine-tasks, thers")
    async with client(name_server, queues=queues) as broker:
        with pytest.raises(ValueError, match="ROCKETPIPE_TASKIQ_QUEUES: this broker has no"):
            await anext(broker.listen())


@scenario
async def test_what_is_not_done_at_shutdown_comes_again_at_once(name_server: str) -> None:
    async with client(name_server, queues=["left-tasks"], invisible_ms=300_000) as broker:
        await broker.kick(task("one"))
        await broker.kick(task("two"))
        listening = broker.listen()
        held = [await anext(listening)]  # one in a task's hands, the other waiting in ours
        await listening.aclose()
    async with client(name_server, queues=["left-tasks"]) as broker:
        listening = broker.listen()
        again = [await anext(listening) for _ in range(2)]
        assert {each.data for each in again if isinstance(each, AckableMessage)} == {b"one", b"two"}
        await listening.aclose()
    del held


@scenario
async def test_a_delay_that_no_broker_takes_is_waited_for_in_parts(
    name_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taskiq, "HOP_MS", 1000)
    async with client(name_server, queues=["far-tasks"]) as broker:
        parts = []
        pass_on = broker.pass_on

        async def counted(message: PoppedMessage) -> bool:
            parts.append(message.properties.get("orderKey"))
            return await pass_on(message)

        monkeypatch.setattr(broker, "pass_on", counted)
        due = time.time() + 2.5
        await broker.kick(task("late", deliver_at=round(due * 1000), order_key="k"))
        await broker.kick(task("now", order_key="k"))
        listening = broker.listen()
        assert (await _done_with(listening)) == b"now"
        assert (await _done_with(listening)) == b"late"
        assert time.time() >= due
        assert parts == ["k"] * 4  # the first is the one that is not late
        await listening.aclose()


async def _done_with(listening: AsyncIterator[bytes | AckableMessage]) -> bytes:
    message = await anext(listening)
    assert isinstance(message, AckableMessage)
    acknowledged = message.ack()
    assert acknowledged is not None
    await acknowledged
    return message.data


# Kills


@scenario
async def test_no_kill_loses_a_task_hurries_it_or_turns_an_order_round(tmp_path: Path) -> None:
    await _survive(tmp_path, tasks=60, kills=2)


@scenario
@pytest.mark.soak
async def test_no_kill_of_many_loses_one_of_thousands_of_tasks(tmp_path: Path) -> None:
    await _survive(tmp_path, tasks=5000, kills=20)


async def _survive(scratch: Path, tasks: int, kills: int) -> None:
    """Send tasks while workers and servers die in turns, and look at what was done in the end."""
    chance = random.Random(23)
    queue = "kill-tasks"
    with killable_servers(scratch) as servers:
        async with client(servers.name_server, queues=[queue], send_timeout_ms=60_000) as broker:
            note = broker.register_task(_nothing, task_name="note")
            working = asyncio.create_task(_work(scratch, servers, queue, tasks, kills))
            try:
                for number in range(tasks):
                    kind, due, labels = "plain", 0.0, {}
                    if number % 2:
                        kind, labels = "ordered", {"order_key": f"key-{number % KEYS}"}
                    elif number % 4:
                        delay = chance.uniform(0.5, 3)
                        due, labels = time.time() + delay, {"delay": delay}
                    await note.kicker().with_labels(**labels).kiq(kind, number, due)
                await working
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
    found = read_notes(scratch / "notes")
    assert {each["number"] for each in found} == set(range(tasks))
    assert all(each["at"] >= each["due"] for each in found)
    for key in range(KEYS):
        of_key = [e for e in found if e["what"] == "ordered" and e["number"] % KEYS == key]
        firsts = list(dict.fromkeys(each["number"] for each in of_key))
        assert firsts == sorted(firsts)
    # What was in hand when something died may come twice, and not all of it always.
    assert len(found) <= tasks + kills * IN_HAND


async def _work(
    scratch: Path, servers: KillableServers, queue: str, tasks: int, kills: int
) -> None:
    def done() -> int:
        return len({each["number"] for each in read_notes(scratch / "notes")})

    for turn in range(kills + 1):
        with worker(scratch, servers.name_server, TASK_QUEUE=queue) as running:
            goal = tasks * (turn + 1) // (kills + 1)
            while done() < goal:  # noqa: ASYNC110 - other processes do it, which know no event
                await asyncio.sleep(0.2)
            if turn == kills:
                return
            if turn % 2:
                await asyncio.to_thread(servers.kill)
                await asyncio.to_thread(servers.start)
            else:
                kill_group(running)


@scenario
async def test_tasks_go_to_the_brokers_that_answer(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1)
    second = cluster.add_broker("broker-b")
    try:
        async with client(cluster.name_servers[0]) as broker:
            await broker.kick(task("first"))
            second.send_signal(signal.SIGSTOP)
            for number in range(20):  # each queue of both has its turn
                await broker.kick(task(f"{number}"))
    finally:
        second.send_signal(signal.SIGCONT)
        cluster.close()


async def test_the_longest_task_is_what_the_broker_says() -> None:
    async with client(NOWHERE, max_message_bytes=100) as broker:
        broker._there.add("taskiq")
        with pytest.raises(MessageRefused, match="100 are the most"):
            await broker.kick(task("x" * 101))
